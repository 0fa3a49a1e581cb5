"""The commands, a file for each group; the work is done elsewhere."""
