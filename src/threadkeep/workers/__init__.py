"""Work that waits for its time: claimed under a lease, run, finished or given back. Knows the services, not the API."""
