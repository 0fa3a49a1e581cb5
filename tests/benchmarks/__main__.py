"""python -m tests.benchmarks [--sizes N,N] [--keep DIR] [--quick] [--only SECTION] [--markdown FILE]"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import nullcontext

from tests.benchmarks.measure import Effort
from tests.benchmarks.report import machine, markdown, table
from tests.benchmarks.run import SECTIONS, run


def main(arguments: list[str]) -> int:
    """Exit code 0 whatever the times are; 1 where an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--sizes", type=_sizes, help="rows, comma list (10000,100000,1000000)")
    parser.add_argument("--keep", metavar="DIR", help="build there, and use again what is there")
    parser.add_argument("--quick", action="store_true", help="10,000 rows, few turns")
    parser.add_argument("--only", action="append", default=[], choices=SECTIONS)
    parser.add_argument("--markdown", metavar="FILE", help="write the tables there as well")
    given = parser.parse_args(arguments)
    effort = Effort.quick() if given.quick else Effort()
    sizes = given.sizes or ((10_000,) if given.quick else (10_000, 100_000, 1_000_000))
    kept = (
        nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory(prefix="cmd-bench-")
    )
    with kept as folder:
        os.makedirs(folder, exist_ok=True)
        figures = run(
            os.path.abspath(folder), sizes, effort, given.only,
            say=lambda line: print(line, file=sys.stderr, flush=True),
        )  # fmt: skip
    print(machine(), end="\n\n")
    print(table(figures))
    if given.markdown:
        with open(given.markdown, "w", encoding="utf-8") as file:
            file.write(markdown(figures))
    return 0


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part.replace("_", "")) for part in text.split(","))
    if not sizes or min(sizes) < 10_000:
        raise argparse.ArgumentTypeError(
            "10,000 rows at least: smaller ones hold no 1,000 worktrees"
        )
    return sizes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
