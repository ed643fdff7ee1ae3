"""The rules of the Memory Service: entities, limits, lifecycle, principal. Standard library only, no I/O."""
