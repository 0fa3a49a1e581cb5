"""status and doctor: how it is, and what to do about it."""
