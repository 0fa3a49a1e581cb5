"""The door: `claudemem-daemon hook` goes straight to the standard library, the rest to click."""

from __future__ import annotations

import sys


def main() -> int:
    """Entry point of the console script; returns the exit code."""
    if len(sys.argv) > 1 and sys.argv[1] == "hook":
        from claudemem_daemon import hook

        return hook.main(sys.argv[2:])
    from claudemem_daemon.cli.main import run

    return run()


if __name__ == "__main__":
    sys.exit(main())
