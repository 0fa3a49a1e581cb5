"""python -m tests.benchmarks [--docs] [--peer FOLDER] [--growth] [--quick] [--only SECTION]"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import nullcontext
from typing import Final

from tests.benchmarks import pages
from tests.benchmarks.growth import growth
from tests.benchmarks.measure import Effort
from tests.benchmarks.report import machine, table
from tests.benchmarks.run import SECTIONS, run

_ROOT: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main(arguments: list[str]) -> int:
    """Exit code 0 whatever the times are; 1 where an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--sizes", type=_sizes, help="rows of the stores, comma list (1000000)")
    parser.add_argument("--keep", metavar="DIR", help="build there, and use again what is there")
    parser.add_argument("--quick", action="store_true", help="10,000 rows, few turns")
    parser.add_argument("--only", action="append", default=[], choices=SECTIONS)
    parser.add_argument("--growth", action="store_true", help="the three curves alone")
    parser.add_argument("--peer", metavar="DIR", help="ask this unpacked claude-mem as well")
    parser.add_argument(
        "--docs", nargs="?", const=_ROOT, metavar="ROOT",
        help="measure all of it, and renew README.md and docs below ROOT (the repository)",
    )  # fmt: skip
    given = parser.parse_args(arguments)
    if given.docs and (given.only or given.growth):
        parser.error("--docs measures everything: without --only and --growth")
    effort = Effort.quick() if given.quick else Effort()
    figures, charts = [], []
    if not given.growth:
        kept = tempfile.TemporaryDirectory(prefix="cmd-bench-")
        with nullcontext(given.keep) if given.keep else kept as folder:
            os.makedirs(folder, exist_ok=True)
            sizes = given.sizes or (10_000 if given.quick else 1_000_000,)
            figures = run(os.path.abspath(folder), sizes, effort, given.only, given.peer, _say)
        print(machine(), end="\n\n")
        print(table(figures))
    if given.growth or given.docs:
        charts = growth(effort, _say)
        print(pages.growth(charts))
    if given.docs:
        pages.write(given.docs, figures, charts)
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part.replace("_", "")) for part in text.split(","))
    if not sizes or min(sizes) < 10_000:
        raise argparse.ArgumentTypeError(
            "10,000 rows at least: smaller ones hold no 1,000 worktrees"
        )
    return sizes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
