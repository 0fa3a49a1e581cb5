"""Which stores a question is answered from."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from claudemem_daemon.dependencies import all_hold
from claudemem_daemon.permissions import quoted
from claudemem_daemon.question import Question
from claudemem_daemon.repository.model import ProjectKey, ProjectKeys
from claudemem_daemon.repository.resolver import Repositories
from claudemem_daemon.settings.configuration import Configuration
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.stores.locate import checkout_stores, locate, store_letter
from claudemem_daemon.stores.model import Located
from claudemem_daemon.stores.trust import Trust
from tests.support.stores import add_observation, make_store


class Place:
    """A home with a data dir, two checkouts and a list of what is allowed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / "home" / ".claude-mem"
        self.main, self.tree = root / "w" / "app", root / "w" / "trees" / "feat"
        for folder in (self.data, self.main, self.tree):
            folder.mkdir(parents=True)
        self.trust = Trust(str(root / "state" / "trusted.json"))

    def settings(self, **values: Any) -> Settings:
        configuration = Configuration({"HOME": str(self.root / "home")})
        snapshot = configuration.snapshot(Question(cwd=None, projects=("app",)))
        return dataclasses.replace(snapshot, **{"data_dir": str(self.data), **values})

    def locate(self, **settings: Any) -> Located:
        keys = ProjectKeys(
            (ProjectKey("app", "exact", "main", str(self.main), "main"),),
            (),
            "app",
            (str(self.main), str(self.tree)),
            (),
        )
        return locate(None, keys, self.settings(**settings), self.trust)

    def claude_settings(self, checkout: Path, value: object, name: str = "settings.json") -> None:
        (checkout / ".claude").mkdir(exist_ok=True)
        shape = {"env": {"CLAUDE_MEM_DATA_DIR": value}}
        (checkout / ".claude" / name).write_text(json.dumps(shape))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def paths(found: Located) -> list[str]:
    return [one.path for one in found.stores]


def test_the_shared_store_is_in_the_data_dir(place: Place) -> None:
    shared = make_store(place.data / "claude-mem.db")
    found = place.locate()
    assert paths(found) == [shared]
    assert not found.refused
    assert not found.warnings


def test_no_shared_store_yet_is_no_error_but_its_appearance_is_noticed(place: Place) -> None:
    found = place.locate()
    assert paths(found) == []
    assert not found.refused
    assert not found.warnings
    assert all_hold(found.dependencies)
    make_store(place.data / "claude-mem.db")
    assert not all_hold(found.dependencies)


def test_a_writers_work_alone_is_no_reason_to_locate_again(place: Place) -> None:
    shared = make_store(place.data / "claude-mem.db")
    found = place.locate()
    add_observation(shared, project="app")
    assert all_hold(found.dependencies)
    os.unlink(shared)
    assert not all_hold(found.dependencies)


@pytest.mark.parametrize("key", ["{main}", "{tree}", "{root}/w/*", "{root}/w/trees/f?at", "*"])
@pytest.mark.parametrize("shape", ["file", "data dir"])
def test_mapped_stores_come_on_top_of_the_shared_one(place: Place, key: str, shape: str) -> None:
    shared = make_store(place.data / "claude-mem.db")
    mine = make_store(place.root / "mine" / "claude-mem.db")
    value = mine if shape == "file" else os.path.dirname(mine)
    glob = key.format(main=place.main, tree=place.tree, root=place.root)
    assert paths(place.locate(stores={glob: (value,)})) == [mine, shared]


def test_a_checkout_with_brackets_in_its_name_is_mapped_by_it(tmp_path: Path) -> None:
    place = Place(tmp_path / "[id]")
    mine = make_store(place.root / "mine.db")
    assert paths(place.locate(stores={str(place.main): (mine,)})) == [mine]
    assert paths(place.locate(stores={f"{place.root}/else*": (mine,)})) == []


def test_a_glob_of_another_checkout_maps_nothing(place: Place) -> None:
    mine = make_store(place.root / "mine.db")
    assert paths(place.locate(stores={str(place.root / "elsewhere*"): (mine,)})) == []


def test_a_mapped_store_that_is_missing_is_told(place: Place) -> None:
    gone = str(place.root / "gone.db")
    found = place.locate(stores={"*": (gone,)})
    assert [(one.path, one.reason) for one in found.refused] == [(gone, "missing")]
    assert [one.code for one in found.warnings] == ["store_missing"]
    make_store(gone)
    assert not all_hold(found.dependencies)


def test_each_file_comes_once_however_many_names_it_has(place: Place) -> None:
    shared = make_store(place.data / "claude-mem.db")
    os.symlink(shared, place.root / "link.db")
    os.link(shared, place.root / "hard.db")
    found = place.locate(
        stores={
            "*": (str(place.root / "link.db"), str(place.root / "hard.db")),
            str(place.main): (shared,),
        }
    )
    assert paths(found) == [shared]


@pytest.mark.parametrize("where", ["main", "tree"])
@pytest.mark.parametrize("how", ["folder", "settings.json", "settings.local.json"])
def test_a_checkouts_own_store_waits_for_the_users_word(place: Place, where: str, how: str) -> None:
    """A cloned repository must not be able to put text in front of a prompt."""
    shared = make_store(place.data / "claude-mem.db")
    checkout: Path = getattr(place, where)
    if how == "folder":
        theirs = make_store(checkout / ".claude-mem" / "claude-mem.db")
    else:
        theirs = make_store(place.root / "theirs" / "claude-mem.db")
        place.claude_settings(checkout, str(place.root / "theirs"), how)
    found = place.locate()
    assert paths(found) == [shared]
    assert [(one.path, one.reason) for one in found.refused] == [(theirs, "untrusted")]
    (warning,) = found.warnings
    assert warning.code == "store_untrusted"
    assert f"`claudemem-daemon allow {theirs}`" in warning.message
    assert checkout_stores(str(checkout), place.trust) == (theirs,)
    place.trust.allow(theirs)
    assert not all_hold(found.dependencies)
    assert paths(place.locate()) == [theirs, shared]
    place.trust.deny(theirs)
    assert paths(place.locate()) == [shared]


def test_the_users_own_store_does_not_wait_because_a_checkout_names_it_too(place: Place) -> None:
    shared = make_store(place.data / "claude-mem.db")
    place.claude_settings(place.main, str(place.data))
    found = place.locate()
    assert paths(found) == [shared]
    assert found.warnings == ()


def test_a_relative_data_dir_of_a_checkout_is_ignored_and_told(place: Place) -> None:
    make_store(place.main / "mem" / "claude-mem.db")
    place.claude_settings(place.main, "mem")
    found = place.locate()
    assert paths(found) == []
    assert [one.code for one in found.warnings] == ["store_path_relative"]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"env": 5}', '{"env": {"CLAUDE_MEM_DATA_DIR": 7}}', "[" * 90000]
)
def test_a_broken_settings_file_of_a_checkout_names_nothing(place: Place, content: str) -> None:
    (place.main / ".claude").mkdir()
    (place.main / ".claude" / "settings.json").write_text(content)
    found = place.locate()
    assert not found.stores
    assert not found.warnings


def test_a_changed_settings_file_of_a_checkout_is_read_again(place: Place) -> None:
    one, two = (make_store(place.root / name / "claude-mem.db") for name in ("one", "two"))
    place.claude_settings(place.main, os.path.dirname(one))
    assert [r.path for r in place.locate().refused] == [one]
    place.claude_settings(place.main, os.path.dirname(two))
    assert [r.path for r in place.locate().refused] == [two]


def test_a_thousand_plain_worktrees_leave_no_evidence_behind(place: Place) -> None:
    """Their stat calls would be paid again by each warm answer."""
    trees = tuple(str(place.root / "many" / str(n)) for n in range(1000))
    keys = ProjectKeys((ProjectKey("app", "exact", "main", None, "main"),), (), "app", trees, ())
    repository = Repositories(str(place.root)).resolve(str(place.main))
    found = locate(repository, keys, place.settings(), place.trust)
    assert len(found.dependencies) < 10


@pytest.mark.parametrize("name", ["plain", "a b", "it's", "$HOME `x`", "new\nline", "caf\udce9"])
def test_the_command_to_run_is_one_the_shell_takes_back(name: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"printf %s {quoted(name)}"], capture_output=True, check=True, timeout=20
    )
    assert os.fsdecode(done.stdout) == name
    if name.isprintable():
        assert shlex.split(quoted(name)) == [name]


def test_every_store_but_the_shared_one_has_a_letter(place: Place) -> None:
    others = [make_store(place.root / f"{name}.db") for name in ("one", "two")]
    mapped = {"*": tuple(others)}
    alone = place.locate(stores=mapped)
    assert [one.letter for one in alone.stores] == ["", "b"]
    shared = make_store(place.data / "claude-mem.db")
    for stores in ({"*": tuple(others)}, {"*": (others[0], shared, others[1])}):
        found = place.locate(stores=stores)
        letters = {one.path: one.letter for one in found.stores}
        assert letters == {shared: "", others[0]: "b", others[1]: "c"}


def test_letters_never_end() -> None:
    letters = [store_letter(number) for number in range(700)]
    assert letters[:2] + letters[23:27] == ["b", "c", "y", "z", "bb", "bc"]
    assert len(set(letters)) == 700
