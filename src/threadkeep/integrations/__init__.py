"""Threadkeep inside agent frameworks: a folder for each, the only place that imports it. Speaks to `chat_history`."""
