"""Break rules all over the package and see a test notice each: `python -m tests.mutations.package`.

As `tests.mutations.resolver`, but each mutation names the tests that must fail on it: such
as run in their own process, for an installed command is not the broken copy.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from tests.mutations.resolver import passes


@dataclass(frozen=True)
class Mutation:
    """`old` occurs once in `file` of the package; one of `tests` must fail without it."""

    rule: str
    file: str
    old: str
    new: str
    tests: str


MUTATIONS: Final = (
    Mutation(
        "a file written just now proves nothing",
        "dependencies.py",
        "RACY_NS = 50_000_000",
        "RACY_NS = 0",
        "stores/test_read_only.py",
    ),
    Mutation(
        "a connection writes nothing",
        "stores/connection.py",
        "PRAGMA query_only = 1",
        "PRAGMA query_only = 0",
        "stores/test_read_only.py",
    ),
    Mutation(
        "a store's own schema runs nothing",
        "stores/connection.py",
        "        db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)",
        "        db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 1)",
        "stores/test_read_only.py",
    ),
)


def main() -> int:
    missed = 0
    print("| rule broken | file | noticed |\n|---|---|---|")
    for one in MUTATIONS:
        noticed = not passes(one.file, one.old, one.new, one.tests)
        missed += not noticed
        print(f"| {one.rule} | `{one.file}` | {'yes' if noticed else 'NO'} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
