"""Live runs: publish and follow. Knows neither AG-UI nor storage."""
