"""The operations of the Memory Service, by noun."""
