"""The published client of mem0 in three versions, each in an environment of its own, against `threadkeep serve`."""
