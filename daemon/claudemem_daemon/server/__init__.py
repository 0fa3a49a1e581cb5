"""HTTP over the Unix socket: app and routes, hook platforms, lifecycle."""
