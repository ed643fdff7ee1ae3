"""Calls as values, one function per endpoint, and the thin senders. Knows no models."""
