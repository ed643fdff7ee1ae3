"""The revisions, named by date and phrase."""
