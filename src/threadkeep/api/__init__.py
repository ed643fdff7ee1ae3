"""The Memory Service over HTTP: routes, auth, errors. Translates, calls a service, translates back."""
