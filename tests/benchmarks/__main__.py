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

_BEGIN = "<!-- figures: written by --markdown -->"
_END = "<!-- end of figures -->"


def main(arguments: list[str]) -> int:
    """Exit code 0 whatever the times are; 1 where an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--sizes", type=_sizes, help="rows, comma list (10000,100000,1000000)")
    parser.add_argument("--keep", metavar="DIR", help="build there, and use again what is there")
    parser.add_argument("--quick", action="store_true", help="10,000 rows, few turns")
    parser.add_argument("--only", action="append", default=[], choices=SECTIONS)
    parser.add_argument(
        "--markdown", metavar="FILE", help="put the tables there as well, between its markers"
    )
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
        _put(given.markdown, markdown(figures))
    return 0


def _put(path: str, tables: str) -> None:
    """The tables between the two markers of a page, or as a page of their own."""
    page = f"{_BEGIN}\n{_END}\n"
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            page = file.read()
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{path} is left alone: it has no lines {_BEGIN} and {_END}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n\n{tables}\n{end}{after}")


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part.replace("_", "")) for part in text.split(","))
    if not sizes or min(sizes) < 10_000:
        raise argparse.ArgumentTypeError(
            "10,000 rows at least: smaller ones hold no 1,000 worktrees"
        )
    return sizes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
