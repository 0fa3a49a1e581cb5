"""Strangers' SQLite files: located, trusted, opened read-only, their schema known."""
