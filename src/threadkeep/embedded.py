"""The async client on an in-process service: no server, no port."""
