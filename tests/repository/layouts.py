"""Random git layouts, made by git itself, changed step by step, and what git says of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from tests.support.files import NAMES_ARE_BYTES

Base = Literal["plain", "bare", "dot_bare", "separate", "submodule"]
BASES: Final[tuple[Base, ...]] = ("plain", "bare", "dot_bare", "separate", "submodule")

NAMES: Final = (
    b"feat",
    b"two words",
    b"-dash",
    b'quo"te',
    b"new\nline",
    b"caf\xc3\xa9",
    b"caf\xe9" if NAMES_ARE_BYTES else b"cafe\xcc\x81 e",
    b"50%_x",
    b"dot.git",
    b"worktrees",
    b"modules",
    b"back\\slash",
    b"trail ",
)

ENVIRON: Final = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.invalid",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.invalid",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "protocol.file.allow",
    "GIT_CONFIG_VALUE_0": "always",
    "GIT_CONFIG_KEY_1": "init.defaultBranch",
    "GIT_CONFIG_VALUE_1": "main",
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
}


def git(*arguments: bytes | str, cwd: bytes, check: bool = True) -> bytes:
    done = subprocess.run(
        ["git", *arguments], cwd=cwd, env=ENVIRON, capture_output=True, check=False
    )
    if check and done.returncode != 0:
        raise AssertionError((arguments, done.stderr))
    return done.stdout if done.returncode == 0 else b""


@dataclass
class Layout:
    """One repository under `root`; `here` is a folder from which git finds it."""

    root: bytes
    base: Base
    here: bytes = b""
    trees: list[bytes] = field(default_factory=list)
    number: int = 0

    def build(self) -> None:
        first = self.root + b"/first"
        git("init", "-q", first, cwd=self.root)
        git("commit", "-q", "--allow-empty", "-m", "x", cwd=first)
        self.here = first
        if self.base == "bare":
            self.here = self.root + b"/shop.git"
            git("clone", "-q", "--bare", first, self.here, cwd=self.root)
        elif self.base == "dot_bare":
            self.here = self.root + b"/proj"
            os.mkdir(self.here)
            git("clone", "-q", "--bare", first, self.here + b"/.bare", cwd=self.root)
            with open(self.here + b"/.git", "wb") as file:
                file.write(b"gitdir: ./.bare\n")
        elif self.base == "separate":
            self.here = self.root + b"/work"
            os.mkdir(self.root + b"/store")
            place = b"--separate-git-dir=" + self.root + b"/store/repo.git"
            git("init", "-q", place, self.here, cwd=self.root)
            git("commit", "-q", "--allow-empty", "-m", "x", cwd=self.here)
        elif self.base == "submodule":
            around = self.root + b"/super"
            git("init", "-q", around, cwd=self.root)
            git("submodule", "--quiet", "add", first, "libs/peer", cwd=around)
            self.here = around + b"/libs/peer"

    @property
    def steps(self) -> dict[str, Callable[[int], None]]:
        return {
            "add": self.add,
            "add_detached": self.add_detached,
            "add_locked": self.add_locked,
            "add_nested": self.add_nested,
            "remove": self.remove,
            "delete": self.delete,
            "move": self.move,
            "rename": self.rename,
            "rename_and_repair": self.rename_and_repair,
            "lock": self.lock,
            "unlock": self.unlock,
            "relative_link": self.relative_link,
            "worktree_config": self.worktree_config,
            "prune": self.prune,
        }

    def add(self, choice: int, *options: str, inside: bytes | None = None) -> None:
        self.number += 1
        folder = inside if inside is not None else self.root + b"/wt%d" % (choice % 3)
        name = NAMES[choice % len(NAMES)]
        path = os.path.join(folder, name + (b"" if choice % 2 else b"%d" % self.number))
        if os.path.lexists(path):
            return
        branch = () if "--detach" in options else ("-b", f"b{self.number}")
        # Refused where a locked or missing worktree has that path: one step that changes nothing.
        git("worktree", "add", "-q", "-f", *options, *branch, path, cwd=self.here, check=False)
        self.trees.append(path)

    def add_detached(self, choice: int) -> None:
        self.add(choice, "--detach")

    def add_locked(self, choice: int) -> None:
        self.add(choice, "--lock", "--reason", "usb\nworktree /w/evil")

    def add_nested(self, choice: int) -> None:
        inside = self._tree(choice) or self.here
        self.add(choice, inside=inside + b"/.claude/worktrees")

    def remove(self, choice: int) -> None:
        path = self._tree(choice)
        if path is not None:
            git("worktree", "remove", "-f", "-f", path, cwd=self.here, check=False)

    def delete(self, choice: int) -> None:
        path = self._tree(choice)
        if path is not None:
            shutil.rmtree(path)

    def move(self, choice: int) -> None:
        path = self._tree(choice)
        if path is not None:
            fresh = self._fresh()
            git("worktree", "move", path, fresh, cwd=self.here, check=False)
            if os.path.lexists(fresh):
                self.trees.append(fresh)

    def rename(self, choice: int) -> None:
        path = self._tree(choice)
        if path is not None:
            fresh = self._fresh()
            os.rename(path, fresh)
            self.trees.append(fresh)

    def rename_and_repair(self, choice: int) -> None:
        self.rename(choice)
        if self.trees and os.path.isdir(self.trees[-1]):
            git("worktree", "repair", self.trees[-1], cwd=self.here, check=False)

    def lock(self, choice: int) -> None:
        path = self._tree(choice)
        if path is not None:
            git("worktree", "lock", "--reason", 'a "b"\tc', path, cwd=self.here, check=False)

    def unlock(self, choice: int) -> None:
        path = self._tree(choice)
        if path is not None:
            git("worktree", "unlock", path, cwd=self.here, check=False)

    def relative_link(self, choice: int) -> None:
        """The `.git` file as `worktree.useRelativePaths` writes it."""
        path = self._tree(choice)
        if path is None or not os.path.isfile(path + b"/.git"):
            return
        with open(path + b"/.git", "rb") as file:
            target = file.read().removeprefix(b"gitdir: ").rstrip(b"\n")
        if target.startswith(b"/"):
            with open(path + b"/.git", "wb") as file:
                file.write(b"gitdir: " + os.path.relpath(target, os.path.realpath(path)) + b"\n")

    def worktree_config(self, _choice: int) -> None:
        """As the manual wants it: what a linked worktree must not inherit moves to the main one's."""
        if self.base == "submodule":
            return
        git("config", "extensions.worktreeConfig", "true", cwd=self.here)
        if self.base in ("bare", "dot_bare"):
            git("config", "--unset", "core.bare", cwd=self.here, check=False)
            git("config", "--worktree", "core.bare", "true", cwd=self.here)

    def prune(self, _choice: int) -> None:
        git("worktree", "prune", cwd=self.here)

    def cwds(self, choice: int) -> list[bytes]:
        """Where to ask from: the base, a worktree, and a folder deep inside it or a link to it."""
        found = [self.here]
        tree = self._tree(choice)
        if tree is not None:
            found.append(tree)
            if choice % 2:
                deep = tree + b"/src/deep"
                os.makedirs(deep, exist_ok=True)
                found.append(deep)
            else:
                link = self.root + b"/link%d" % choice
                if not os.path.lexists(link):
                    os.symlink(tree, link)
                if os.path.isdir(link):
                    found.append(link)
        return found

    def _tree(self, choice: int) -> bytes | None:
        alive = [path for path in self.trees if os.path.isfile(path + b"/.git")]
        return alive[choice % len(alive)] if alive else None

    def _fresh(self) -> bytes:
        self.number += 1
        return self.root + b"/moved%d " % self.number + NAMES[self.number % len(NAMES)]


@dataclass(frozen=True)
class Listed:
    """One entry of `git worktree list --porcelain -z`."""

    path: str
    bare: bool
    branch: str | None
    head: str | None
    """Of a detached HEAD."""
    locked: str | None
    prunable: bool


def git_says(cwd: bytes) -> tuple[list[Listed], str, str] | None:
    """The worktrees, the common dir and the checkout's root ("" in a bare repository); None where
    git finds no repository, as behind a relative link that was moved."""
    listing = git("worktree", "list", "--porcelain", "-z", cwd=cwd, check=False)
    if not listing:
        return None
    entries: list[Listed] = []
    for block in listing.split(b"\0\0"):
        if not block:
            continue
        known: dict[bytes, bytes] = {}
        for line in block.split(b"\0"):
            name, _, value = line.partition(b" ")
            known[name] = value
        branch = known.get(b"branch")
        entries.append(
            Listed(
                os.fsdecode(known[b"worktree"]),
                b"bare" in known,
                os.fsdecode(branch).removeprefix("refs/heads/") if branch else None,
                os.fsdecode(known[b"HEAD"]) if b"detached" in known else None,
                os.fsdecode(known[b"locked"]) if b"locked" in known else None,
                b"prunable" in known,
            )
        )
    asked = ("rev-parse", "--path-format=absolute", "--git-common-dir", "--show-toplevel")
    both = git(*asked, cwd=cwd, check=False)
    if both:
        # The common dir's own name never holds a line break here; a checkout's may.
        common, _, top = both[:-1].partition(b"\n")
    else:
        common, top = git(*asked[:-1], cwd=cwd)[:-1], b""
    return entries, os.path.realpath(os.fsdecode(common)), os.fsdecode(top)


def write_repository(main: Path, worktrees: int) -> None:
    """A repository whose worktrees w0, w1, ... are written as git writes them; git itself takes
    minutes for a thousand."""
    git_dir = main / ".git"
    (git_dir / "objects").mkdir(parents=True)
    (git_dir / "refs").mkdir()
    (git_dir / "HEAD").write_text("ref: refs/heads/main\n")
    for number in range(worktrees):
        write_worktree(main, f"w{number}")


def write_worktree(main: Path, name: str) -> Path:
    """Its folder below `<common dir>/worktrees`; there is no checkout."""
    admin = main / ".git" / "worktrees" / name
    admin.mkdir(parents=True)
    (admin / "gitdir").write_text(f"{main.parent}/{name}/.git\n")
    (admin / "commondir").write_text("../..\n")
    return admin
