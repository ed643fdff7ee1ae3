"""From AG-UI's events to chat history: the fold, the storage agent, the wire."""
