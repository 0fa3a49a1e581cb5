"""From a working directory to its repository, its worktrees and the keys that name their rows."""
