"""The one list of migrations, for both engines."""
