"""Which stores named by a checkout the user has allowed.

A cloned repository can name a store in its own files, and what is in a store ends in front of a
prompt. So such a store waits until `claudemem-daemon allow` names it, as direnv does with `.envrc`.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from claudemem_daemon.dependencies import FileState, file_state
from claudemem_daemon.errors import StoreError
from claudemem_daemon.local import MAX_LIST, open_own, replace_own
from claudemem_daemon.memo import Memo
from claudemem_daemon.permissions import of_another
from claudemem_daemon.stores.checkout import CheckoutFiles
from claudemem_daemon.warning import AnswerWarning

Identity = tuple[int, int, int]
"""Owner, device and inode: the file as it was when it was allowed, not just its name."""


@dataclass(frozen=True, slots=True)
class Trusted:
    """stores: by path with symbolic links resolved. warnings: one when trusted.json cannot be used;
    then nothing is allowed."""

    dependencies: tuple[FileState, ...]
    stores: Mapping[str, Identity]
    warnings: tuple[AnswerWarning, ...] = ()


class Trust:
    """The file `trusted.json` of our own state folder, read again whenever it changed.

    A store is allowed while it is the same file of the same owner: one that was replaced needs a
    new `allow`. SQLite's own work, WAL or VACUUM, keeps the file. Only `allow` and `deny` write.
    """

    def __init__(self, path: str, memo: Memo | None = None) -> None:
        self.path = path
        self._memo = memo or Memo()
        self.checkouts = CheckoutFiles(self._memo)
        """What checkouts name in their own files; here, where it is judged."""
        self._lock = threading.Lock()

    def read(self) -> Trusted:
        return self._memo.value(("trust", self.path), lambda: _load(self.path))

    def allowed(self, store_path: str) -> bool:
        """Whether this very file was allowed; False for what is missing or was replaced."""
        stores = self.read().stores
        if not stores:
            return False
        try:
            real = os.path.realpath(store_path)
            return stores.get(real) == _identity(os.stat(real))
        except (OSError, ValueError):
            return False

    def allow(self, store_path: str) -> None:
        """Remember the file as it is now.

        Raises `StoreError` when there is no such file or it is no regular file.
        """
        try:
            real = os.path.realpath(store_path)
            seen = os.stat(real)
        except (OSError, ValueError) as error:
            message = f"{store_path}: no store to allow ({_reason(error)})"
            raise StoreError(message, path=store_path, reason="missing") from None
        if not stat.S_ISREG(seen.st_mode):
            message = f"{store_path}: not a regular file, name the store itself"
            raise StoreError(message, path=store_path, reason="foreign")
        with self._writing() as stores:
            stores[real] = _identity(seen)

    def deny(self, store_path: str) -> bool:
        """Take it back; False when it was not allowed. Works for files that are gone, too."""
        with self._writing() as stores:
            named = {os.path.abspath(store_path), os.path.realpath(store_path)} & stores.keys()
            for path in named:
                del stores[path]
        return bool(named)

    @contextmanager
    def _writing(self) -> Iterator[dict[str, Identity]]:
        """The stores, to be changed. Two `allow` at once would each write the list without the
        other's store, so the folder is locked."""
        folder = os.path.dirname(self.path)
        refused = of_another(folder)
        if refused is not None:
            raise StoreError(refused, path=self.path, reason="owner")
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                with self._lock:
                    fcntl.flock(handle, fcntl.LOCK_EX)
                    before = _load(self.path).stores
                    stores = dict(before)
                    yield stores
                    if stores != before:
                        listed = [dict(zip(_FIELDS, (p, *stores[p]), strict=True)) for p in stores]
                        shape = {"version": 1, "stores": listed}
                        replace_own(self.path, (json.dumps(shape, indent=1) + "\n").encode("ascii"))
            finally:
                os.close(handle)
        except OSError as error:
            message = f"{self.path}: cannot be written ({_reason(error)})"
            raise StoreError(message, path=self.path, reason="io") from error


_FIELDS: Final = ("path", "uid", "device", "inode")


def _identity(seen: os.stat_result) -> Identity:
    return seen.st_uid, seen.st_dev, seen.st_ino


def _load(path: str) -> Trusted:
    dependencies = (file_state(path),)
    if dependencies[0].state is None:
        return Trusted(dependencies, {})
    try:
        with open(open_own(path, os.O_RDONLY), encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & 0o022:
                raise ValueError("others may write it")
            shape: Any = json.loads(file.read(MAX_LIST))
        stores = {
            str(store["path"]): (int(store["uid"]), int(store["device"]), int(store["inode"]))
            for store in shape["stores"]
        }
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        message = (
            f"{path} cannot be used ({_reason(error)}): no store of a checkout is allowed;"
            " remove the file and allow them again"
        )
        return Trusted(dependencies, {}, (AnswerWarning("trust_unreadable", message, path=path),))
    return Trusted(dependencies, stores)


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__
