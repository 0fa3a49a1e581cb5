"""Where the command starts: `hook` on the standard library alone, every other command by click."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
"""As in `typing`, which a hook cannot afford to import."""

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping


def main() -> int:
    """Returns the exit code."""
    if len(sys.argv) > 1 and sys.argv[1] == "hook":
        from claudemem_daemon import hook

        return hook.main(sys.argv[2:], in_process)
    if sys.argv[1:] == ["run"]:
        # Without the command line, which nothing but its options and help need.
        return serve(os.environ)
    from claudemem_daemon.cli.main import run

    return run(serve)


def serve(environ: MutableMapping[str, str]) -> int:
    # Until all that stays is there; to look through it again and again takes a tenth of the start.
    gc.disable()
    from claudemem_daemon.server.run import run_daemon

    return run_daemon(environ)


def in_process(platform: str, body: bytes, environ: Mapping[str, str], until: float) -> bytes:
    if sys.flags.no_site:
        # Started without, for speed; the libraries may be anywhere.
        import site

        site.main()
    from claudemem_daemon.server.hooks.handler import answer_in_process

    return answer_in_process(platform, body, environ, until)


if __name__ == "__main__":
    sys.exit(main())
