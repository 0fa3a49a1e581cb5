"""The text that goes in front of a prompt: fitted to its budget, then rendered."""
