"""The published clients and ours, driven by the same scenarios on one server: they must end in the same stored rows."""
