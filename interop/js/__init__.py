"""The published JavaScript clients, in Node: `threadkeep serve` on each engine, with a scripted agent behind it."""
