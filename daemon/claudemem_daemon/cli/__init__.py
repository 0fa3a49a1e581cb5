"""The commands, one file a group; each is a thin edge."""
