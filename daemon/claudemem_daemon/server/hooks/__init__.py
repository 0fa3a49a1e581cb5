"""Hooks of every assistant: who calls, what it takes, what it was told before."""
