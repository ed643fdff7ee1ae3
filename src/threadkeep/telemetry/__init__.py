"""What an operator sees: logs, metrics, traces. Never what users say: no body, no token, no path as it was sent."""
