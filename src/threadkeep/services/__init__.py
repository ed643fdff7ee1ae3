"""What can be done: one method, one transaction. Knows neither HTTP nor SQL."""
