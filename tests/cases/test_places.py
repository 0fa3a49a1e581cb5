"""What is answered for a folder does not depend on what was asked before, nor on who answers."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cases.world import World
from tests.support.daemon import run_to_end
from tests.support.stores import make_store


def both(world: World, cwd: str | Path, **environ: str) -> dict[str, Any]:
    """The answer of the daemon, which must be that of a process that knows nothing."""
    warm = world.query(cwd)
    alone = {**world.daemon.environ, "CLAUDEMEM_DAEMON_SOCKET": f"{world.home}/no.sock", **environ}
    done = run_to_end(alone, "query", "--json", "--cwd", str(cwd))
    assert done.returncode == 0, done.stderr
    cold = json.loads(done.stdout)
    for shape in (warm, cold):
        for one in shape["stores"]:
            one.pop("schema_version", None)
    assert warm["warnings"] == cold["warnings"]
    assert warm["observations"] == cold["observations"]
    assert warm["projects"] == cold["projects"]
    assert warm["stores"] == cold["stores"]
    return warm


def codes(answer: dict[str, Any]) -> list[str]:
    return [one["code"] for one in answer["warnings"]]


def names(answer: dict[str, Any]) -> list[str]:
    return sorted(row["title"] for row in answer["observations"])


def test_a_folder_that_went_from_a_living_checkout_is_answered_for(world: World) -> None:
    app = world.repository("app", "app-a")
    world.row("app", title="main")
    for checkout in (app, world.root / "app-a"):
        deep = checkout / "src" / "deep"
        deep.mkdir(parents=True)
        assert codes(both(world, deep)) == []
        shutil.rmtree(checkout / "src")
        answer = both(world, deep)
        assert names(answer) == ["main"]
        (warning,) = answer["warnings"]
        assert (warning["code"], warning["path"]) == ("cwd_vanished", str(deep))
        assert warning["message"].endswith(f"no such folder; answered for its repository, {app}")
        deep.mkdir(parents=True)
        assert codes(both(world, deep)) == []
    assert world.context(world.root / "app-a" / "typo").startswith("# [app/app-a]")


def test_a_file_is_answered_for_by_its_folder(world: World) -> None:
    app = world.repository("app")
    world.row("app", title="main")
    (app / "a.py").write_text("")
    answer = both(world, app / "a.py")
    assert names(answer) == ["main"]
    assert "a.py: this is not a folder; answered for" in answer["warnings"][0]["message"]


def test_a_vanished_folder_outside_any_repository_is_nothing(world: World) -> None:
    """Also where home is a repository: it does not swallow what was below it."""
    world.git("init", "-q", world.home)
    world.row(world.home.name, title="dotfiles")
    gone = world.home / "notes"
    gone.mkdir()
    assert codes(both(world, gone)) == []
    gone.rmdir()
    answer = both(world, gone)
    assert (names(answer), codes(answer)) == ([], ["cwd_vanished"])


def test_a_worktree_deleted_inside_its_repository_is_still_itself(world: World) -> None:
    app = world.repository("app")
    inside = app / ".trees" / "feat"
    world.git("worktree", "add", "-q", inside, "-b", "feat", cwd=app)
    world.row("app/feat", title="feat")
    shutil.rmtree(app / ".trees")
    answer = both(world, inside / "src")
    assert (names(answer), codes(answer)) == (["feat"], ["cwd_vanished"])
    assert world.context(inside).startswith("# [app/feat]")


@pytest.mark.parametrize("place", ["store/repo.git", "store/.hidden", "one/two/three.git"])
@pytest.mark.parametrize("asked_first", [False, True])
@pytest.mark.parametrize("linked", [False, True])
def test_a_worktree_of_a_separate_git_dir_finds_its_main_checkout(
    world: World, place: str, *, asked_first: bool, linked: bool
) -> None:
    """Case separate-git-dir-main-wrong, from a daemon that never saw the main checkout too."""
    git_dir, work = world.root / place, world.root / "work"
    git_dir.parent.mkdir(parents=True)
    world.git("init", "-q", f"--separate-git-dir={git_dir}", work)
    world.git("commit", "-q", "--allow-empty", "-m", "first", cwd=work)
    world.git("worktree", "add", "-q", world.root / "wt", cwd=work)
    if linked:
        (work / ".git").unlink()
        (work / ".git").symlink_to(git_dir)
    for key in ("work", "work/wt", "store"):
        world.row(key, title=key)
    if asked_first:
        assert names(both(world, work)) == ["work", "work/wt"]
    answer = both(world, world.root / "wt")
    assert (names(answer), codes(answer)) == (["work", "work/wt"], [])
    # Moved, it is still where its own link file is.
    work.rename(world.root / "job")
    world.row("job", title="job")
    assert names(both(world, world.root / "wt")) == ["job"]


@pytest.mark.parametrize("record", [None, ""])
def test_a_worktree_whose_record_is_lost_is_still_itself(world: World, record: str | None) -> None:
    """git works there, and only leaves it out of its list."""
    lost = world.repository("app", "tree").parent / "tree"
    path = world.root / "app" / ".git" / "worktrees" / "tree" / "gitdir"
    path.unlink()
    if record is not None:
        path.write_text(record)
    for key in ("app", "app/tree", "tree"):
        world.row(key, title=key)
    assert names(both(world, lost)) == ["app", "app/tree", "tree"]
    assert sorted(row["title"] for row in world.query(lost, scope="self")["observations"]) == [
        "app/tree",
        "tree",
    ]


@pytest.mark.parametrize("asked_first", [False, True])
def test_a_main_checkout_that_nothing_tells_is_missed_aloud(
    world: World, *, asked_first: bool
) -> None:
    git_dir, work = world.root / "x" / "y" / "z" / "stuff", world.root / "far" / "sep"
    for folder in (git_dir.parent, work.parent, world.root / "trees"):
        folder.mkdir(parents=True)
    world.git("init", "-q", f"--separate-git-dir={git_dir}", work)
    world.git("commit", "-q", "--allow-empty", "-m", "first", cwd=work)
    tree = world.root / "trees" / "sep-w"
    world.git("worktree", "add", "-q", tree, cwd=work)
    for key in ("sep", "stuff/sep-w"):
        world.row(key, title=key)
    if asked_first:
        assert codes(both(world, work)) == []
    answer = both(world, tree)
    assert names(answer) == ["stuff/sep-w"]
    (warning,) = answer["warnings"]
    assert (warning["code"], warning["key"]) == ("main_unknown", "CLAUDE_MEM_DAEMON_ALIASES")
    assert warning["path"] == str(git_dir)
    world.settings({"CLAUDE_MEM_DAEMON_ALIASES": {"stuff": ["sep"]}})
    answer = both(world, tree)
    assert (names(answer), codes(answer)) == (["sep", "stuff/sep-w"], [])


def test_a_checkout_that_comes_to_lie_beside_a_worktree_is_found(world: World) -> None:
    work, tree = world.root / "far" / "sep", world.root / "trees" / "sep-w"
    git_dir = world.root / "x" / "y" / "z" / "stuff"
    for folder in (git_dir.parent, work.parent, tree.parent):
        folder.mkdir(parents=True)
    world.git("init", "-q", f"--separate-git-dir={git_dir}", work)
    world.git("commit", "-q", "--allow-empty", "-m", "first", cwd=work)
    world.git("worktree", "add", "-q", tree, cwd=work)
    assert codes(both(world, tree)) == ["main_unknown"]
    os.rename(work, tree.parent / "sep")
    assert codes(both(world, tree)) == []


def removed(store: Path) -> None:
    store.unlink()


def dangling(store: Path) -> None:
    store.rename(store.with_name("elsewhere.db"))
    store.symlink_to("nowhere.db")


def loop(store: Path) -> None:
    store.unlink()
    store.symlink_to(store.name)


def no_folder(store: Path) -> None:
    shutil.rmtree(store.parent)
    store.parent.write_text("")


def closed_folder(store: Path) -> None:
    store.parent.chmod(0)
    if os.path.exists(store):
        pytest.skip("root may look into every folder")


@pytest.mark.parametrize(
    ("which", "become", "code", "words"),
    [
        ("shared", dangling, "store_missing", "a link to a store that is not there"),
        ("shared", loop, "store_unreadable", "Too many levels of symbolic links"),
        ("mapped", removed, "store_missing", "no store there"),
        ("mapped", dangling, "store_missing", "a link to a store that is not there"),
        ("mapped", loop, "store_unreadable", "Too many levels of symbolic links"),
        ("mapped", no_folder, "store_unreadable", "Not a directory"),
        ("mapped", closed_folder, "store_unreadable", "Permission denied"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_store_that_is_lost_is_told_alike_by_a_daemon_that_had_it(
    world: World, which: str, become: Callable[[Path], None], code: str, words: str
) -> None:
    app = world.repository("app")
    world.row("app", title="kept")
    store = Path(world.store)
    if which == "mapped":
        store = Path(make_store(world.root / "mapped" / "m.db"))
        world.row("app", title="mapped", store=str(store))
        world.settings({"CLAUDE_MEM_DAEMON_STORES": {"*": str(store)}})
    assert "kept" in names(both(world, app))
    try:
        become(store)
        explained = world.daemon.post("/v1/explain", {"cwd": str(app)}).json()
        answer = both(world, app)
        assert explained["warnings"] == answer["warnings"]
        assert names(answer) == (["kept"] if which == "mapped" else [])
        (warning,) = answer["warnings"]
        assert (warning["code"], warning["path"]) == (code, str(store))
        assert warning["message"].startswith(f"{store}: {words}")
    finally:
        if store.parent.is_dir():
            store.parent.chmod(0o755)


@pytest.mark.parametrize("become", [removed, dangling, loop, no_folder])
def test_a_checkouts_store_that_is_lost_is_told_alike_by_a_daemon_that_had_it(
    world: World, become: Callable[[Path], None]
) -> None:
    app = world.repository("app", "tree")
    store = Path(make_store(app / ".claude-mem" / "claude-mem.db"))
    world.row("app", title="lost", store=str(store))
    done = run_to_end(world.daemon.environ, "allow", str(store))
    assert done.returncode == 0
    for cwd in (app, world.root / "tree"):
        assert names(both(world, cwd)) == ["lost"]
    become(store)
    for cwd in (app, world.root / "tree"):
        assert names(both(world, cwd)) == []


def test_a_shared_store_that_is_removed_is_none_yet(world: World) -> None:
    """As for everybody at the start."""
    app = world.repository("app")
    world.row("app", title="kept")
    assert names(both(world, app)) == ["kept"]
    removed(Path(world.store))
    answer = both(world, app)
    assert answer["observations"] == answer["warnings"] == answer["stores"] == []
    world.row("app", title="new")
    assert names(both(world, app)) == ["new"]


def test_why_a_store_is_not_there_is_told_as_it_is_now(world: World) -> None:
    """One reason after another, though there is never a store to look at."""
    app = world.repository("app")
    store = world.root / "m.db"
    world.settings({"CLAUDE_MEM_DAEMON_STORES": {"*": str(store)}})
    for target, code in (("nowhere", "missing"), ("m.db", "unreadable"), (None, "missing")):
        store.unlink(missing_ok=True)
        if target is not None:
            store.symlink_to(target)
        assert codes(both(world, app)) == [f"store_{code}"]
