"""What the user allowed, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from claudemem_daemon.dependencies import all_hold
from claudemem_daemon.errors import StoreError
from claudemem_daemon.stores.trust import Trust
from tests.support.files import needs_names_of_bytes
from tests.support.stores import add_observation, make_store, run_sql


@pytest.fixture
def store(tmp_path: Path) -> str:
    return make_store(tmp_path / "clone" / ".claude-mem" / "claude-mem.db")


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    return Trust(str(tmp_path / "state" / "trusted.json"))


def test_nothing_is_allowed_and_nothing_written_before_it_is_said(trust: Trust, store: str) -> None:
    assert not trust.allowed(store)
    assert not trust.read().stores
    assert trust.read().warnings == ()
    assert not os.path.exists(os.path.dirname(trust.path))


def test_what_was_allowed_is_allowed_for_everyone_who_reads_the_file(
    trust: Trust, store: str
) -> None:
    other = Trust(trust.path)
    assert not other.allowed(store)
    before = other.read().dependencies
    trust.allow(store)
    assert other.allowed(store)
    assert not all_hold(before)
    trust.deny(store)
    assert not other.allowed(store)


def test_the_file_and_its_folder_are_the_users_alone(trust: Trust, store: str) -> None:
    trust.allow(store)
    assert stat.S_IMODE(os.stat(trust.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(trust.path)).st_mode) == 0o700
    assert os.listdir(os.path.dirname(trust.path)) == ["trusted.json"]


def test_a_replaced_store_needs_a_new_word(trust: Trust, store: str, tmp_path: Path) -> None:
    trust.allow(store)
    os.replace(make_store(tmp_path / "evil.db"), store)
    assert not trust.allowed(store)
    trust.allow(store)
    assert trust.allowed(store)
    assert len(trust.read().stores) == 1


def test_a_copy_in_another_place_is_not_allowed(trust: Trust, store: str, tmp_path: Path) -> None:
    trust.allow(store)
    shutil.copy(store, tmp_path / "copy.db")
    assert not trust.allowed(str(tmp_path / "copy.db"))


def test_what_claude_mem_does_to_its_store_keeps_it_allowed(trust: Trust, store: str) -> None:
    trust.allow(store)
    add_observation(store)
    run_sql(store, "VACUUM")
    run_sql(store, "PRAGMA wal_checkpoint(TRUNCATE)")
    assert trust.allowed(store)


def test_another_owner_is_another_store(
    trust: Trust, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust.allow(store)
    shape = json.loads(Path(trust.path).read_text())
    shape["stores"][0]["uid"] += 1
    Path(trust.path).write_text(json.dumps(shape))
    assert not Trust(trust.path).allowed(store)


def test_a_link_that_points_elsewhere_now_is_not_allowed(
    trust: Trust, store: str, tmp_path: Path
) -> None:
    link = str(tmp_path / "link.db")
    os.symlink(store, link)
    trust.allow(link)
    assert trust.allowed(link)
    assert trust.allowed(store)
    os.unlink(link)
    os.symlink(make_store(tmp_path / "evil.db"), link)
    assert not trust.allowed(link)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"stores": [{"path": 1}]}', b"\xff\xfe", b'{"stores": 5}', b"[" * 90000],
    ids=["empty", "cut", "list", "no fields", "no UTF-8", "number", "deep"],
)
def test_a_broken_list_allows_nothing_and_says_so(trust: Trust, store: str, content: bytes) -> None:
    trust.allow(store)
    Path(trust.path).write_bytes(content)
    assert not trust.allowed(store)
    (warning,) = trust.read().warnings
    assert warning.code == "trust_unreadable"
    assert trust.path in warning.message
    assert "\n" not in warning.message
    trust.allow(store)
    assert trust.allowed(store)
    assert trust.read().warnings == ()


def test_a_list_without_end_is_not_read_to_it(trust: Trust, store: str) -> None:
    trust.allow(store)
    os.truncate(trust.path, 1 << 40)
    assert not trust.allowed(store)
    assert trust.read().warnings[0].code == "trust_unreadable"


def test_a_list_others_may_write_allows_nothing(trust: Trust, store: str) -> None:
    trust.allow(store)
    os.chmod(trust.path, 0o666)
    assert not Trust(trust.path).allowed(store)


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_only_a_file_can_be_allowed(trust: Trust, tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "x.db")
    if kind == "folder":
        os.mkdir(path)
    with pytest.raises(StoreError, match=r"x\.db"):
        trust.allow(path)
    assert not os.path.exists(trust.path)


def test_deny_tells_whether_there_was_anything_to_take_back(trust: Trust, store: str) -> None:
    assert not trust.deny(store)
    trust.allow(store)
    shutil.rmtree(os.path.dirname(store))
    assert trust.deny(store)
    assert not trust.read().stores


@needs_names_of_bytes
def test_a_path_of_any_bytes_is_remembered(trust: Trust, tmp_path: Path) -> None:
    odd = os.fsdecode(os.path.join(os.fsencode(tmp_path), b"caf\xe9\n'.db"))
    make_store(odd)
    trust.allow(odd)
    assert Trust(trust.path).allowed(odd)


def test_two_who_allow_at_once_both_get_their_way(trust: Trust, tmp_path: Path) -> None:
    stores = [make_store(tmp_path / f"{n}.db") for n in range(12)]
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda path: Trust(trust.path).allow(path), stores))
    assert all(trust.allowed(path) for path in stores)
