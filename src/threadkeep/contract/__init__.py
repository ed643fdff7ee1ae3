"""What crosses the wire, as types: request and response bodies with their camelCase keys.

No behaviour lives here, and nothing but the standard library: both towers stand on it.
"""
