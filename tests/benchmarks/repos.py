"""Repositories with any number of worktrees: by git for a few, git's files by hand for many.

`git worktree add` takes some 5 ms each and checks files out; a thousand by hand take a tenth of a
second, and `git worktree list` reads them all the same.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from typing import Final

from tests.benchmarks.store import grove, worktree_name

_FEW: Final = 10
_OBJECT: Final = "0123456789abcdef0123456789abcdef01234567"
_CONFIG: Final = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"


def build_repositories(
    folder: str, plain: Iterable[str], groves: Iterable[int]
) -> Mapping[str, str]:
    """Make (or find again) a repository for each name of `plain`, and one for each number of
    worktrees in `groves`.

    Returns project key -> path of the main checkout.
    """
    paths = {}
    for name in plain:
        paths[name] = os.path.join(folder, name)
        if not os.path.isdir(paths[name]):
            _by_hand(paths[name], 0)
    for worktrees in groves:
        name = grove(worktrees)
        paths[name] = os.path.join(folder, name)
        if os.path.isdir(paths[name]):
            continue
        (_by_git if worktrees <= _FEW else _by_hand)(paths[name], worktrees)
    return paths


def _trees(top: str, worktrees: int) -> list[tuple[str, str]]:
    """Name and path of each worktree: in one folder beside the main checkout."""
    names = [worktree_name(worktrees, number) for number in range(worktrees)]
    return [(name, os.path.join(f"{top}.trees", name)) for name in names]


def _by_git(top: str, worktrees: int) -> None:
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": "Bench", f"GIT_{role}_EMAIL": "bench@example.invalid"}

    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], env=env, check=True, capture_output=True)

    git("init", "-q", "-b", "main", top)
    git("-C", top, "commit", "-q", "--allow-empty", "-m", "root")
    for name, path in _trees(top, worktrees):
        git("-C", top, "worktree", "add", "-q", "-b", name, path)


def _by_hand(top: str, worktrees: int) -> None:
    git = os.path.join(top, ".git")
    os.makedirs(os.path.join(git, "objects", "pack"))
    os.makedirs(os.path.join(git, "refs", "heads"))
    _write(os.path.join(git, "HEAD"), "ref: refs/heads/main\n")
    _write(os.path.join(git, "config"), _CONFIG)
    packed = ["# pack-refs with: peeled fully-peeled sorted\n"]
    for name, path in _trees(top, worktrees):
        admin = os.path.join(git, "worktrees", name)
        os.makedirs(admin)
        os.makedirs(path)
        _write(os.path.join(path, ".git"), f"gitdir: {admin}\n")
        _write(os.path.join(admin, "gitdir"), f"{path}/.git\n")
        _write(os.path.join(admin, "commondir"), "../..\n")
        _write(os.path.join(admin, "HEAD"), f"ref: refs/heads/{name}\n")
        packed.append(f"{_OBJECT} refs/heads/{name}\n")
    packed.append(f"{_OBJECT} refs/heads/main\n")
    _write(os.path.join(git, "packed-refs"), "".join(packed))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
