"""Which rows belong to another repository of the same name.

Two repositories `/one/api` and `/two/api` share the key `api` in one store. What tells them apart is
where the files lie that a row names; for a session summary, also those that the session's
observations name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from claudemem_daemon.dependencies import FileIdentity, file_identity, folder_identity
from claudemem_daemon.repository.model import ProjectKeys
from claudemem_daemon.repository.ownership import Checkout, PathOwnership
from claudemem_daemon.stores.interface import StoreReader
from claudemem_daemon.stores.rows import Row, absolute_paths
from claudemem_daemon.stores.sql import Wanted
from claudemem_daemon.warning import AnswerWarning


class Ownership:
    """Decides whose rows are. For one answer: it remembers what it saw of the file system."""

    def __init__(self, keys: ProjectKeys) -> None:
        self._checkouts = keys.checkouts
        self._common_dirs = keys.common_dirs
        self._excluded = frozenset(keys.excluded)
        self._shared_folders = keys.shared_folders
        self._paths = PathOwnership()
        self._others: dict[str, str] = {}
        self._of_sessions: dict[tuple[StoreReader, str, str], bool] = {}
        self._dependencies: dict[str, FileIdentity] = {}

    def keeps(self, row: Row, reader: StoreReader) -> bool:
        """Whether the row belongs to the repository of the question, and to no excluded checkout, as
        a row that was merged into one of its keys may. Raises `StoreError`."""
        if row.project in self._excluded:
            return False
        if row.paths or not row.of_session:
            return self._are_ours(lambda: row.paths, row.project)
        # Of a summary without files, those of its session, which has several summaries.
        of = reader, row.session, row.project
        if of not in self._of_sessions:
            self._of_sessions[of] = self._are_ours(
                lambda: _paths_of_session(row.session, reader), row.project
            )
        return self._of_sessions[of]

    def _are_ours(self, paths: Callable[[], Iterable[str]], project: str) -> bool:
        """Whether a row of this project belongs to the repository, by the absolute paths it names."""
        if self._shared_folders and self._is_of_another_worktree(paths()):
            return False
        other = self.owner(paths(), project)
        if other is not None:
            self._note(project, other)
        return other is None

    def _is_of_another_worktree(self, paths: Iterable[str]) -> bool:
        """Whether a row belongs to a worktree that shares its key with one in the question: none of
        its files is in a folder of the question, and one is in another checkout of the repository
        or in a removed one of the same name."""
        same_name = f"/{os.path.basename(self._shared_folders[0])}/"
        elsewhere = False
        for path in paths:
            around = self._paths.around(path)
            if around and around[0].folder in self._asked_for:
                return False
            inside = bool(around) and around[0].repository in self._ours
            elsewhere = elsewhere or inside or same_name in path
        return elsewhere

    def _note(self, project: str, other: str) -> None:
        self._others.setdefault(project, other)
        if other not in self._dependencies:
            self._dependencies[other] = file_identity(os.path.join(other, ".git"))

    @property
    def dropped(self) -> bool:
        """Whether any row belonged to another repository."""
        return bool(self._others)

    def dependencies(self) -> tuple[FileIdentity, ...]:
        """The other checkouts: when one is gone, its rows cannot be told from ours."""
        return tuple(self._dependencies.values())

    def warnings(self) -> tuple[AnswerWarning, ...]:
        return tuple(
            AnswerWarning(
                "ambiguous_key",
                f"key {project!r} is used by another repository too, {other}: rows with files there"
                " are left out; give each its own store by CLAUDE_MEM_DAEMON_STORES",
                path=other,
                key=project,
            )
            for project, other in self._others.items()
        )

    def other_repository(self, row: Row) -> str | None:
        """The other repository's folder, where the paths of an observation say that it has one."""
        return self.owner(row.paths, row.project)

    def others_rows(self, reader: StoreReader, wanted: Wanted) -> frozenset[int]:
        """Ids of the projects' observations, whatever the filters, that belong to another repository.
        Reads each row that names a file outside our checkouts. Raises `StoreError`."""
        found: set[int] = set()
        for number, project, *cells in reader.files_outside(wanted, self._roots):
            paths = [path for cell in cells for path in absolute_paths(cell)]
            other = self.owner(paths, project)
            if other is not None:
                self._note(project, other)
                found.add(number)
        return frozenset(found)

    def owner(self, paths: Iterable[str], project: str) -> str | None:
        """The other repository's checkout, where none of the absolute paths lies in our repository and
        one lies in an existing checkout of another repository that has one of the project's names,
        as its own name or its repository's.

        A removed worktree's folder does not exist, so it is never another repository.
        """
        elsewhere: list[str] = []
        for path in paths:
            if self._is_below_ours(path):
                return None
            elsewhere.append(path)
        if not elsewhere or not self._roots:
            return None
        names = frozenset(name for name in (project, *project.split("/")) if name)
        other: str | None = None
        for path in elsewhere:
            for checkout in self._around(path, names):
                if checkout.repository in self._ours:
                    return None
                if other is None and not names.isdisjoint(checkout.names):
                    other = checkout.folder
        return other

    def _is_below_ours(self, path: str) -> bool:
        """By spelling, without a system call."""
        return f"{path}/".startswith(self._roots) and "/../" not in f"{path}/"

    def _around(self, path: str, names: frozenset[str]) -> tuple[Checkout, ...]:
        # A row mostly names files, and where a link to a file lies is what counts.
        folder, _, leaf = path.rstrip("/").rpartition("/")
        whole = leaf in names or leaf == ".."
        return self._paths.around(path if whole else folder)

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        return tuple(checkout.rstrip("/") + "/" for checkout in self._checkouts)

    @cached_property
    def _asked_for(self) -> frozenset[str]:
        return frozenset(map(os.path.realpath, self._shared_folders))

    @cached_property
    def _ours(self) -> frozenset[tuple[int, int]]:
        # A folder without a git directory is identified by itself.
        found = (folder_identity(folder) for folder in self._common_dirs or self._roots)
        return frozenset(identity for identity in found if identity is not None)


def _paths_of_session(session: str, reader: StoreReader) -> Iterator[str]:
    return (path for cell in reader.files_of_session(session) for path in absolute_paths(cell))
