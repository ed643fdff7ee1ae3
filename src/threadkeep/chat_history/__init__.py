"""AG-UI events into typed, durable chat history. Speaks to repositories only."""
