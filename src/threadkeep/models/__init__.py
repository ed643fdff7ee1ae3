"""The synchronous SDK: objects that call the service and return objects."""
