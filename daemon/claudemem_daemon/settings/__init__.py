"""One immutable snapshot of every setting per request: the value and where it came from."""
