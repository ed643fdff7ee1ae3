"""The demo agent: a script, or a real model where a key is set."""
