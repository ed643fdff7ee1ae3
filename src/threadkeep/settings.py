"""Settings of the server, described as data."""
