"""The async typed ORM over the Memory Service. Knows nothing of AG-UI."""
