"""Public fakes for tests: a scripted agent. Fakes nothing but models."""
