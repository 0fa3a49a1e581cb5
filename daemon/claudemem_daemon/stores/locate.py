"""Which store files one question is answered from, and which of them must wait."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from claudemem_daemon.database_url import is_database, public
from claudemem_daemon.dependencies import FileDependency, file_identity, file_state
from claudemem_daemon.permissions import quoted
from claudemem_daemon.repository.model import ProjectKeys, Repository
from claudemem_daemon.repository.names import FolderNames
from claudemem_daemon.settings.exclusion import nfc
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.settings.parsers import shown
from claudemem_daemon.stores.checkout import STORE_NAME, Named, store_file
from claudemem_daemon.stores.failures import store_error, unreachable
from claudemem_daemon.stores.model import Located, StoreRef, StoreReport
from claudemem_daemon.stores.trust import Trust
from claudemem_daemon.warning import AnswerWarning

STORES: Final = "CLAUDE_MEM_DAEMON_STORES"

Identity = tuple[int, int]
"""device, inode"""
NamedBy = Literal["user", "checkout", "default"]


def locate(
    repository: Repository | None,
    keys: ProjectKeys,
    settings: Settings,
    trust: Trust,
) -> Located:
    """All stores of these keys together, each file once; opens none of them.

    In this order: what CLAUDE_MEM_DAEMON_STORES maps to a checkout of the repository or to `*`,
    what the checkouts name themselves, the shared store. The checkouts' own need an `allow` first,
    unless the user named the same file as well.
    """
    checkouts = keys.checkouts
    search = _Search(trust, dependencies=[*trust.read().dependencies])
    named = _named(search, keys, _near(repository, checkouts))
    for rule, value in _mapped(search, (*checkouts, *_known_by(repository, keys)), settings):
        if is_database(value):
            search.add_database(value, rule)
        else:
            search.add(store_file(value), rule, "user", trusted=True)
    shared = os.path.join(settings.data_dir, STORE_NAME)
    # Looked at before the checkouts' own, listed after them: a file that is both is the user's.
    search.users = _identity(shared)
    for store in named:
        if store.path is not None:
            search.add(store.path, store.rule, "checkout")
            continue
        ignored = f"CLAUDE_MEM_DATA_DIR {shown(store.value)} is ignored: not an absolute path"
        message = f"{store.file}: {ignored}"
        search.warnings.append(AnswerWarning("store_path_relative", message, path=store.file))
    search.add(shared, "shared store", "default", trusted=True)
    return Located(
        search.lettered(shared),
        tuple(search.refused),
        (*trust.read().warnings, *search.warnings),
        tuple(search.dependencies),
    )


def checkout_stores(checkout: str, trust: Trust) -> tuple[str, ...]:
    """Paths of the stores that this checkout names and that exist: what `allow` is about."""
    named = trust.checkouts.named(checkout).stores
    return tuple(dict.fromkeys(s.path for s in named if s.path and os.path.isfile(s.path)))


@dataclass(slots=True)
class _Search:
    trust: Trust
    stores: list[StoreRef] = field(default_factory=list)
    refused: list[StoreReport] = field(default_factory=list)
    warnings: list[AnswerWarning] = field(default_factory=list)
    dependencies: list[FileDependency] = field(default_factory=list)
    users: Identity | None = None
    """The user's own store: no checkout's word about it makes it wait."""
    _seen: set[Identity] = field(default_factory=set)
    _missing: set[str] = field(default_factory=set)

    def add(self, path: str, rule: str, named_by: NamedBy, *, trusted: bool = False) -> None:
        """Take the store at `path`, or say why not."""
        identity = _identity(path)
        if identity is None:
            self._add_missing(path, rule, named_by)
            return
        # Looked at before the permission: another file in its place has to be allowed again.
        self.dependencies.append(file_identity(path))
        own = identity == self.users
        if identity in self._seen or (own and named_by != "default"):
            return
        self._seen.add(identity)
        if trusted or own or self.trust.allowed(path):
            self.stores.append(StoreRef(path, rule))
            return
        message = (
            f"{path} waits: {rule}, and a checkout's own store is read only after"
            f" `claudemem-daemon allow {quoted(path)}`"
        )
        self._leave_out(path, rule, "untrusted", message)

    def _add_missing(self, path: str, rule: str, named_by: NamedBy) -> None:
        if path in self._missing:
            return
        self._missing.add(path)
        self.dependencies.append(file_identity(path))
        error = store_error(path, "missing", "no store there")
        try:
            os.stat(path)
        except (OSError, ValueError) as failure:
            error = unreachable(path, failure)
        # No store yet is how every memory begins; a way that leads nowhere is not.
        absent = error.reason == "missing" and not os.path.lexists(path)
        if named_by == "default" and absent:
            return
        message = error.message if named_by == "default" else f"{error.message} ({rule})"
        # Of a checkout's own words a store is known only once it was allowed.
        known = named_by != "checkout" or os.path.realpath(path) in self.trust.read().stores
        warned = named_by == "user" or (known and not absent)
        self._leave_out(path, rule, error.reason, message, warned=warned)

    def _leave_out(
        self, path: str, rule: str, reason: str, message: str, *, warned: bool = True
    ) -> None:
        self.refused.append(StoreReport(path, False, message, None, rule, reason))
        if warned:
            self.warnings.append(AnswerWarning(f"store_{reason}", message, path=path))

    def add_database(self, url: str, rule: str) -> None:
        """Take the database, which only the user can have named."""
        path = public(url)
        if all(store.path != path for store in self.stores):
            self.stores.append(StoreRef(path, rule, url=url))

    def lettered(self, shared: str) -> tuple[StoreRef, ...]:
        """The stores, all but the first with a letter. The first is the shared store where it is
        among them, whatever name it was found by: its ids are those of claude-mem's own tools."""
        identities = [_identity(ref.path) for ref in self.stores]
        identity = _identity(shared)
        first = identities.index(identity) if identity and identity in identities else 0
        letters = iter(range(len(self.stores)))
        return tuple(
            ref if number == first else replace(ref, letter=store_letter(next(letters)))
            for number, ref in enumerate(self.stores)
        )


def _identity(path: str) -> Identity | None:
    state = file_state(path).state
    return None if state is None else (state[0], state[1])


def store_letter(number: int) -> str:
    """b, c, ... z, then bb, bc, ...: letters alone, for digits follow."""
    turn, place = divmod(number, 25)
    return (store_letter(turn - 1) if turn else "") + chr(ord("b") + place)


def _near(repository: Repository | None, checkouts: Sequence[str]) -> frozenset[str]:
    if repository is None:
        return frozenset(checkouts)
    near = [at.path for at in (repository.main, repository.current) if at is not None]
    return frozenset((*near, repository.top or repository.cwd))


def _known_by(repository: Repository | None, keys: ProjectKeys) -> tuple[str, ...]:
    """The folder of a bare repository, or of a main checkout that cannot be reached: the user names
    the repository by it as by a checkout."""
    if repository is None or repository.kind == "none" or not keys.keys:
        return ()
    return repository.excluded_by


def _named(search: _Search, keys: ProjectKeys, near: frozenset[str]) -> list[Named]:
    """What the checkouts name."""
    known, files = search.trust.read(), search.trust.checkouts
    siblings = (checkout for checkout in keys.checkouts if checkout not in near)
    of_siblings = files.of_siblings(keys.common_dirs, siblings, known.dependencies[0])
    named: list[Named] = []
    for checkout in keys.checkouts:
        found = of_siblings.get(checkout) or files.named(checkout)
        named.extend(found.stores)
        search.dependencies.extend(found.dependencies)
        for path in known.stores:
            if path.startswith(checkout + "/") and not os.path.exists(path):
                search.dependencies.append(file_state(path))
    return named


def _mapped(search: _Search, checkouts: Sequence[str], settings: Settings) -> list[tuple[str, str]]:
    """(rule, value) for each store that the setting maps to one of the checkouts."""
    found: list[tuple[str, str]] = []
    everywhere: list[tuple[str, str]] = []
    names = FolderNames(pattern for pattern in settings.stores if pattern != "*")
    folders = [
        name.rstrip("/") or "/"
        for checkout in (checkouts if settings.stores.keys() - {"*"} else ())
        for name in names.of(checkout)
    ]
    search.dependencies.extend(names.dependencies)
    for pattern, values in settings.stores.items():
        if pattern == "*":
            everywhere += [(f"{STORES}, key *", value) for value in values]
            continue
        glob = nfc(pattern.rstrip("/") or "/")
        # A folder's own name may have brackets, which are a class in a pattern.
        if glob in folders or any(fnmatch.fnmatchcase(name, glob) for name in folders):
            found += [(f"{STORES}, key {pattern}", value) for value in values]
    return found + everywhere
