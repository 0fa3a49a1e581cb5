"""Bug reports of area `worktree`, asked from outside through a real daemon."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.cases.world import World
from tests.support.files import needs_names_of_bytes


def test_every_worktree_sees_the_rows_of_all(world: World) -> None:
    """Case worktree-siblings-invisible."""
    app = world.repository("app", "app-a", "app-b")
    for number, project in enumerate(("app", "app/app-a", "app/app-b")):
        world.row(project, title=project, created_at_epoch=1_767_225_600_000 + number)
    for cwd in (app, world.root / "app-a", world.root / "app-b"):
        assert world.titles(cwd) == ["app/app-b", "app/app-a", "app"]
        assert world.titles(cwd, limit=2) == ["app/app-b", "app/app-a"]


def test_all_generations_of_a_worktrees_name_are_one_history(world: World) -> None:
    """Case mixed-worktree-key-generations."""
    app = world.repository("app", "modest")
    for project in ("modest", "app/modest", "app"):
        world.row(project, title=project)
    for cwd in (world.root / "modest", app):
        answer = world.query(cwd)
        assert sorted(row["title"] for row in answer["observations"]) == [
            "app",
            "app/modest",
            "modest",
        ]
        keys = {project["key"]: project for project in answer["projects"]}
        assert keys["app"]["role"] == "main"
        assert keys["app/modest"]["path"] == keys["modest"]["path"] == str(world.root / "modest")


def test_a_removed_worktree_keeps_its_rows(world: World) -> None:
    """Case removed-worktree-orphans-rows."""
    app = world.repository("app", "app-x")
    for number in range(5):
        world.row("app/app-x", title=f"orphan {number}")
    world.row("app/app-y", title="merged", merged_into_project="app")
    world.row("appendix/z", title="another repository")
    world.git("worktree", "remove", world.root / "app-x", cwd=app)
    world.git("branch", "-D", "branch-app-x", cwd=app)
    answer = world.query(app)
    titles = sorted(row["title"] for row in answer["observations"])
    assert titles == ["merged", *(f"orphan {number}" for number in range(5))]
    roles = {project["key"]: (project["role"], project["path"]) for project in answer["projects"]}
    assert roles["app/app-x"] == ("removed", None)
    assert "appendix/z" not in roles


def test_a_subdirectory_is_its_worktree(world: World) -> None:
    """Case subdir-loses-worktree-identity."""
    app = world.repository("app", "app-a")
    world.row("app", title="main")
    world.row("app/app-a", title="a")
    for folder in (world.root / "app-a", app):
        deep = folder / "src" / "deep"
        deep.mkdir(parents=True)
        assert world.titles(deep) == world.titles(folder) == ["a", "main"]


def test_repositories_of_one_name_are_told_apart_by_paths_and_stores(world: World) -> None:
    """Case same-basename-repos-mixed."""
    one = world.repository("one/api", "feat")
    two = world.repository("two/api", "feat2")
    world.row("api", title="r1", files_read=[str(one / "x.py")])
    world.row("api", title="r2", files_read=[str(two / "x.py")])
    world.row("api/feat", title="r3")
    answer = world.query(one)
    assert [row["title"] for row in answer["observations"]] == ["r3", "r1"]
    assert [w["code"] for w in answer["warnings"] if w.get("key") == "api"] == ["ambiguous_key"]


@pytest.mark.parametrize("of_worktree", [False, True])
def test_a_submodule_brings_its_superproject_after_its_own(world: World, of_worktree: bool) -> None:
    """Case submodule-cwd-empty-project."""
    peer = world.repository("origin/peer")
    react = world.repository("react")
    world.git("submodule", "--quiet", "add", peer, "libs/peer", cwd=react)
    if of_worktree:
        world.git("commit", "-qm", "peer", cwd=react)
        world.git("worktree", "add", "-q", world.root / "tree", cwd=react)
        react = world.root / "tree"
        world.git("submodule", "-q", "update", "--init", cwd=react)
    for number in range(3):
        world.row("react", title=f"react {number}")
    world.row("peer", title="peer")
    inside = react / "libs" / "peer"
    (inside / "src").mkdir()
    for cwd in (inside, inside / "src"):
        answer = world.query(cwd)
        assert len(answer["observations"]) == 4
        keys = [project["key"] for project in answer["projects"]]
        assert keys.index("peer") < keys.index("react")
        assert "libs" not in keys
    assert sorted(world.titles(react)) == ["react 0", "react 1", "react 2"]


@pytest.mark.parametrize("name", ["proj", "proj.git"])
def test_a_dot_bare_layout_is_named_after_its_folder(world: World, name: str) -> None:
    """Case bare-dot-bare-layout."""
    origin = world.repository("R")
    project = world.root / name
    project.mkdir()
    world.git("clone", "-q", "--bare", origin, project / ".bare")
    (project / ".git").write_text("gitdir: ./.bare\n")
    world.git("worktree", "add", "-q", "main", cwd=project)
    world.git("worktree", "add", "-q", "feat", "-b", "feat", cwd=project)
    (project / "feat" / "src").mkdir()
    keys = sorted((name, "main", f"{name}/feat"))
    for key in keys:
        world.row(key, title=key)
    for cwd in (project, project / "main", project / "feat" / "src"):
        answer = world.query(cwd)
        assert sorted(row["title"] for row in answer["observations"]) == keys
        assert ".bare" not in {p["key"] for p in answer["projects"]}


@pytest.mark.parametrize("name", [".dotfiles", ".dotfiles.git"])
def test_a_hidden_bare_repository_is_named_after_itself(world: World, name: str) -> None:
    """The folder around it, often the home folder, is another project."""
    home = world.root / "me"
    world.git("clone", "-q", "--bare", world.repository("R"), home / name)
    world.git("worktree", "add", "-q", world.root / "tree", "-b", "tree", cwd=home / name)
    for key in ("me", "me/x", ".dotfiles", ".dotfiles/tree", "tree"):
        world.row(key, title=key)
    for cwd in (home / name, world.root / "tree"):
        assert sorted(world.titles(cwd)) == [".dotfiles", ".dotfiles/tree", "tree"]


def test_a_generic_folder_name_of_another_repository_stays_out(world: World) -> None:
    """Case generic-worktree-leaf-collides."""
    one = world.repository("x/one")
    two = world.repository("y/two")
    for main in (one, two):
        world.git("worktree", "add", "-q", main.parent / "develop", "-b", "develop", cwd=main)
    world.row("develop", title="bare", files_read=[str(two.parent / "develop" / "a.py")])
    world.row("one/develop", title="ours")
    world.row("two/develop", title="theirs")
    assert world.titles(one) == ["ours"]


def test_a_folder_of_repositories_is_only_itself(world: World) -> None:
    """Case parent-dir-of-many-repos."""
    world.repository("code/repo-a")
    world.repository("code/repo-b")
    for key in ("code", "repo-a", "repo-b"):
        world.row(key, title=key)
    assert world.titles(world.root / "code") == ["code"]
    assert world.titles(world.root / "code" / "repo-a") == ["repo-a"]


@pytest.mark.parametrize("instead", ["nothing", "file", "dangling"])
def test_a_worktree_deleted_by_hand_keeps_its_rows(world: World, instead: str) -> None:
    """Case prunable-worktree-crashes."""
    app = world.repository("app", "a", "b")
    world.row("app/b", title="kept")
    gone = world.root / "b"
    shutil.rmtree(gone)
    if instead == "file":
        gone.write_text("")
    elif instead == "dangling":
        gone.symlink_to(world.root / "nowhere")
    for _ in range(20):
        assert world.titles(world.root / "a") == ["kept"]
    assert str(gone) in world.git("worktree", "list", "--porcelain", cwd=app)


def test_a_symbolic_link_leads_to_the_same_repository(world: World) -> None:
    """Case symlinked-project-path."""
    app = world.repository("app")
    (app / "src").mkdir()
    link = world.home / "link"
    link.symlink_to(app)
    world.row("app", title="app")
    world.row("link", title="link")
    assert world.titles(app) == ["app"]
    assert sorted(world.titles(link)) == sorted(world.titles(link / "src")) == ["app", "link"]
    dangling = world.home / "dangling"
    dangling.symlink_to(world.root / "nowhere")
    assert world.titles(dangling) == []


def test_a_separate_git_dir_is_no_project(world: World) -> None:
    """Case separate-git-dir-main-wrong."""
    store = world.root / "store"
    store.mkdir()
    work = world.root / "work"
    world.git("init", "-q", f"--separate-git-dir={store / 'repo.git'}", work)
    world.git("commit", "-q", "--allow-empty", "-m", "first", cwd=work)
    world.git("worktree", "add", "-q", world.root / "wt", cwd=work)
    for key in ("work", "work/wt", "repo", "store"):
        world.row(key, title=key)
    assert sorted(world.titles(work)) == ["repo", "work", "work/wt"]
    assert sorted(world.titles(world.root / "wt")) == ["repo", "work", "work/wt"]


def test_a_moved_worktree_is_found_under_both_names(world: World) -> None:
    """Case git-worktree-move."""
    app = world.repository("app", "tmp1")
    world.row("app/tmp1", title="before")
    world.git("worktree", "move", world.root / "tmp1", world.root / "login-fix", cwd=app)
    world.row("app/login-fix", title="after")
    for cwd in (app, world.root / "login-fix"):
        assert sorted(world.titles(cwd)) == ["after", "before"]
    (world.root / "login-fix").rename(world.root / "third")
    world.row("app/third", title="third")
    for cwd in (app, world.root / "third"):
        assert sorted(world.titles(cwd)) == ["after", "before", "third"]


def test_a_repository_of_another_owner_is_read_and_left_alone(world: World) -> None:
    """Case dubious-ownership: git itself refuses here, we read files."""
    app = world.repository("app", "app-a")
    world.row("app/app-a", title="a")
    config = (app / ".git" / "config").read_bytes()
    refused = subprocess.run(
        ["git", "status"],
        cwd=app,
        env={
            "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1",
            "HOME": str(world.home),
            "PATH": os.environ["PATH"],
        },
        capture_output=True,
        check=False,
    )
    assert b"dubious ownership" in refused.stderr
    assert world.titles(app) == ["a"]
    assert (app / ".git" / "config").read_bytes() == config
    assert not (world.home / ".gitconfig").exists()


def test_the_reason_of_a_lock_is_no_worktree(world: World) -> None:
    """Case locked-worktree-reason."""
    app = world.repository("app")
    away = world.root / "usb" / "wt"
    away.parent.mkdir()
    reason = f"usb\nworktree {world.root}/evil"
    world.git("worktree", "add", "-q", "--lock", "--reason", reason, away, "-b", "wt", cwd=app)
    shutil.rmtree(away.parent)
    world.row("app/wt", title="kept")
    answer = world.query(app)
    assert [row["title"] for row in answer["observations"]] == ["kept"]
    assert not any("evil" in (project["path"] or "") for project in answer["projects"])


@needs_names_of_bytes
def test_a_name_that_is_no_utf8_survives_the_round_trip(world: World) -> None:
    """Case non-utf8-path."""
    app = world.repository("app")
    odd = os.fsencode(world.root) + b"/caf\xe9"
    subprocess.run(
        ["git", "worktree", "add", "-q", odd, "-b", "cafe"],
        cwd=app,
        env={"PATH": os.environ["PATH"], "HOME": str(world.home)},
        check=True,
    )
    world.row("app", title="main")
    world.row("caf\ufffd", title="odd")
    assert sorted(world.titles(os.fsdecode(odd))) == ["main", "odd"]
    assert world.daemon.get("/v1/status").status == 200


def test_paths_of_another_system_are_unreachable_and_harmless(world: World) -> None:
    """Case windows-path-in-gitdir."""
    app = world.repository("app")
    admin = app / ".git" / "worktrees" / "app-win"
    admin.mkdir(parents=True)
    (admin / "gitdir").write_bytes(b"C:/w/app-win/.git\r\n")
    (admin / "commondir").write_bytes(b"../..\r\n")
    (admin / "HEAD").write_bytes(b"ref: refs/heads/main\r\n")
    window = world.root / "app-win"
    window.mkdir()
    (window / ".git").write_bytes(b"gitdir: C:/w/app/.git/worktrees/app-win\r\n")
    world.row("app", title="main")
    world.row("app/app-win", title="win")
    assert sorted(world.titles(app)) == ["main", "win"]
    answer = world.query(window)
    assert sorted(row["title"] for row in answer["observations"]) == ["main", "win"]
    assert [one["code"] for one in answer["warnings"]] == ["git_unreadable"]
    assert not (world.root / "C:").exists()


def test_a_home_under_git_does_not_swallow_what_is_below(world: World) -> None:
    """Case home-is-a-repo."""
    world.git("init", "-q", world.home)
    notes = world.home / "notes"
    notes.mkdir()
    app = world.home / "code" / "app"
    app.parent.mkdir()
    world.git("init", "-q", app)
    for key in (world.home.name, "notes", "app"):
        world.row(key, title=key)
    assert world.titles(notes) == ["notes"]
    assert world.titles(app) == ["app"]
    assert world.titles(world.home) == [world.home.name]


def test_a_renamed_repository_keeps_its_rows_by_an_alias(world: World) -> None:
    """Case renamed-repo-directory."""
    shop = world.repository("shop")
    for number in range(20):
        world.row("shop-old", title=f"old {number}")
    world.row("shop", title="new")
    assert world.titles(shop) == ["new"]
    world.settings({"CLAUDE_MEM_DAEMON_ALIASES": {"shop": ["shop-old"]}})
    assert len(world.titles(shop)) == 21
