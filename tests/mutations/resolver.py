"""Break each rule of the resolver once and see the tests notice: `python -m tests.mutations.resolver`.

Each mutation is one replacement in a copy of the package; the oracle test, which compares random
layouts with git, must fail on it. Prints a table; exits 1 if a broken rule went unnoticed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import claudemem_daemon

TOP: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutation:
    """`old` occurs once in `file` below the repository room."""

    rule: str
    file: str
    old: str
    new: str


MUTATIONS: Final = (
    Mutation(
        "a .git file is a link",
        "layout.py",
        "    target = gitfiles.read_gitlink(marker)",
        "    target = None",
    ),
    Mutation(
        "commondir leads to the common dir",
        "records.py",
        'os.path.join(git_dir, "commondir")',
        'os.path.join(git_dir, "commondi")',
    ),
    Mutation("the walk goes up", "layout.py", "folder = above", "break"),
    Mutation(
        "a bare repository has no main checkout",
        "records.py",
        'return ("dot_bare" if inside else "bare"), None',
        'return ("dot_bare" if inside else "bare"), common',
    ),
    Mutation(
        "core.bare in a .git file's target",
        "layout.py",
        'return Repository("dot_bare", f"{marker} is the bare repository {real}", None, real)',
        'return Repository("plain", "", folder, real, main)',
    ),
    Mutation(
        "a relative link is relative to its file",
        "gitfiles.py",
        "return resolve(target, os.path.dirname(path)) if target else None",
        'return resolve(target, "/") if target else None',
    ),
    Mutation(
        "only the last line breaks of a link go",
        "gitfiles.py",
        'os.fsdecode(data.rstrip(b"\\r\\n"))',
        'os.fsdecode(data.split(b"\\n")[0])',
    ),
    Mutation(
        "bytes that are no UTF-8 survive",
        "gitfiles.py",
        'os.fsdecode(data.rstrip(b"\\r\\n"))',
        'data.rstrip(b"\\r\\n").decode("utf-8", "replace")',
    ),
    Mutation(
        "a link's path loses its /.git",
        "worktrees.py",
        'if os.path.basename(path) == ".git":',
        "if False:",
    ),
    Mutation(
        "the list notices a worktree that comes or goes",
        "worktrees.py",
        "dependencies = [file_state(folder)]",
        "dependencies = []",
    ),
    Mutation(
        "the list notices a worktree that moves",
        "worktrees.py",
        "dependencies.append(link.state)",
        "pass",
    ),
    Mutation(
        "what a repository was read from is noticed when it changes",
        "layout.py",
        "dependencies=tuple(recorded.values())",
        "dependencies=()",
    ),
    Mutation(
        "a worktree moved by hand is where its link is",
        "resolver.py",
        "path=found.top,\n        name=leaf",
        "path=listed.path,\n        name=leaf",
    ),
    Mutation(
        "a lock's reason may hold lines",
        "worktrees.py",
        'locked = gitfiles.read_line(os.path.join(git_dir, "locked")) or ""',
        'locked = (gitfiles.read_line(os.path.join(git_dir, "locked")) or "").split("\\n")[0]',
    ),
    Mutation(
        "HEAD that is no ref is detached",
        "worktrees.py",
        "branch=branch, head=head",
        "branch=branch, head=None",
    ),
    Mutation(
        "what is gone is missing",
        "worktrees.py",
        'state = "missing"',
        'state = "ok"',
    ),
    Mutation(
        "a worktree that its repository has elsewhere is none",
        "layout.py",
        " and leads_to(recorded, admin):",
        " and False:",
    ),
    Mutation(
        "a worktree moved by hand is its repository's",
        "layout.py",
        " and leads_to(recorded, admin):",
        ":",
    ),
    Mutation(
        "a listed folder that another repository has is none of ours",
        "worktrees.py",
        "if _is_anothers(path, common_dir):",
        "if False:",
    ),
    Mutation(
        "a symbolic link leads to the real checkout",
        "layout.py",
        "    real = real_path(cwd)",
        "    real = cwd",
    ),
)


def main() -> int:
    missed = 0
    print("| rule broken | file | noticed |\n|---|---|---|")
    for one in MUTATIONS:
        noticed = survives(one) is False
        missed += not noticed
        print(f"| {one.rule} | `{one.file}` | {'yes' if noticed else 'NO'} |", flush=True)
    return 1 if missed else 0


def survives(mutation: Mutation) -> bool:
    """Whether the oracle passes on the broken copy."""
    return passes(f"repository/{mutation.file}", mutation.old, mutation.new, "repository")


def passes(file: str, old: str, new: str, tests: str) -> bool:
    """Whether the tests pass on a copy of the package with `new` for `old` in one file."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "claudemem_daemon"
        shutil.copytree(Path(claudemem_daemon.__file__).parent, package)
        path = package / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{file}: {old!r} stands in {text.count(old)} places"
        path.write_text(text.replace(old, new), encoding="utf-8")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-x",
                "-p",
                "no:cacheprovider",
                str(TOP / "tests" / tests),
            ],
            cwd=TOP,
            env={
                **os.environ,
                "PYTHONPATH": folder,
                "CLAUDEMEM_MUTATED": folder,
                "CLAUDEMEM_LAYOUTS": "mutation",
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
