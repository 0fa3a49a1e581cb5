"""Whatever becomes of a file that an answer was read from: who has answered all along gives the next
answer, and its warnings, as who starts now."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from claudemem_daemon.api import open_pipeline
from claudemem_daemon.deadline import Deadline
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.shapes import query_shape
from tests.repository.layouts import git
from tests.support.daemon import eventually
from tests.support.stores import add_observation, make_store


def empty(path: Path) -> None:
    path.write_bytes(b"")


def one_line_break(path: Path) -> None:
    path.write_bytes(b"\n")


def garbage(path: Path) -> None:
    path.write_bytes(b"\0[]{}\xff" * 20)


def same_size(path: Path) -> None:
    """In place, as a crash may leave it."""
    path.write_bytes(b"x" * path.stat().st_size)


def named_elsewhere(path: Path) -> None:
    """A word in place of the last folder, in whatever the file says."""
    text = path.read_text()
    path.write_text(text.replace("tree", "gone").replace("..", "../gone").replace("main", "next"))


def removed(path: Path) -> None:
    path.unlink()


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to("nothing")


def link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def moved_behind_a_link(path: Path) -> None:
    path.rename(path.with_name("moved-away"))
    path.symlink_to("moved-away")


DAMAGES: tuple[Callable[[Path], None], ...] = (
    *(empty, one_line_break, garbage, same_size, named_elsewhere, removed, folder, fifo),
    *(link_to_nothing, link_to_itself, moved_behind_a_link),
)


def mend(path: Path, content: bytes) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    elif path.is_symlink() or not path.is_file():
        path.unlink(missing_ok=True)
    path.write_bytes(content)
    path.with_name("moved-away").unlink(missing_ok=True)


class Asker:
    """One pipeline that answers all along, and a new one for each comparison."""

    def __init__(self, environ: dict[str, str], cwds: tuple[Path, ...], running: Pipeline) -> None:
        self.environ = environ
        self.cwds = cwds
        self.running = running

    def answers(self, pipeline: Pipeline) -> list[Any]:
        return [self.answer(pipeline, str(cwd)) for cwd in self.cwds]

    def answer(self, pipeline: Pipeline, cwd: str) -> Any:
        answer = pipeline.context(Question(cwd), Deadline.after(60))
        return query_shape(answer.answer), answer.context.text, answer.answer.resolved.keys.keys

    def fresh(self) -> list[Any]:
        with open_pipeline(self.environ) as pipeline:
            return self.answers(pipeline)

    def settle(self) -> None:
        """Ask until nothing that an answer depends on has changed so shortly before that it would
        be read again anyway."""

        def settled() -> bool:
            answers = [
                self.running.context(Question(str(cwd)), Deadline.after(60)) for cwd in self.cwds
            ]
            return not any(
                getattr(dependency, "racy", False)
                for answer in answers
                for dependency in answer.dependencies
            )

        eventually(settled, "files older than a clock tick")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "w").mkdir()
    store = make_store(tmp_path / "home" / ".claude-mem" / "claude-mem.db")
    for project in ("main", "main/tree", "tree", "main/gone", "w", "work", "work/tree", "bare"):
        add_observation(store, project=project, title=project)
    return tmp_path


@pytest.fixture
def asker(root: Path, request: pytest.FixtureRequest) -> Iterator[Asker]:
    """`request.param` makes the repository below `root / "w"`, and names the folders to ask from."""
    environ = {"HOME": str(root / "home")}
    cwds = request.param(root / "w")
    with open_pipeline(environ) as running:
        yield Asker(environ, cwds, running)


def add_tree(git_dir: Path, place: Path) -> Path:
    git("worktree", "add", "-q", "--detach", bytes(place), cwd=bytes(git_dir))
    (place / "src").mkdir()
    return place


def plain(w: Path) -> tuple[Path, ...]:
    w.mkdir(exist_ok=True)
    git("init", "-q", bytes(w / "main"), cwd=bytes(w))
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=bytes(w / "main"))
    git("config", "extensions.worktreeConfig", "true", cwd=bytes(w / "main"))
    git("config", "--worktree", "core.sparseCheckout", "false", cwd=bytes(w / "main"))
    add_tree(w / "main", w / "other")
    tree = add_tree(w / "main", w / "tree")
    return tree, tree / "src", w / "main", w / "main" / ".git", w / "other"


def bare(w: Path) -> tuple[Path, ...]:
    plain(w / "seed")
    git("clone", "-q", "--bare", bytes(w / "seed" / "main"), bytes(w / "bare.git"), cwd=bytes(w))
    tree = add_tree(w / "bare.git", w / "tree")
    return tree, tree / "src", w / "bare.git"


def dot_bare(w: Path) -> tuple[Path, ...]:
    plain(w / "seed")
    (w / "work").mkdir()
    git("clone", "-q", "--bare", bytes(w / "seed/main"), bytes(w / "work/.bare"), cwd=bytes(w))
    (w / "work" / ".git").write_text("gitdir: ./.bare\n")
    tree = add_tree(w / "work" / ".bare", w / "work" / "tree")
    return tree, tree / "src", w / "work"


def separate(w: Path) -> tuple[Path, ...]:
    (w / "store").mkdir()
    place = b"--separate-git-dir=" + bytes(w / "store" / "repo.git")
    git("init", "-q", place, bytes(w / "work"), cwd=bytes(w))
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=bytes(w / "work"))
    tree = add_tree(w / "work", w / "tree")
    return tree, tree / "src", w / "work"


def submodule(w: Path) -> tuple[Path, ...]:
    plain(w / "seed")
    git("init", "-q", bytes(w / "main"), cwd=bytes(w))
    source = bytes(w / "seed" / "main")
    git("submodule", "--quiet", "add", source, "lib", cwd=bytes(w / "main"))
    return w / "main" / "lib", w / "main"


CASES = [
    *((plain, f"main/.git/worktrees/tree/{name}") for name in ("HEAD", "commondir", "gitdir")),
    *((plain, f"main/.git/{name}") for name in ("HEAD", "config", "config.worktree")),
    (plain, "tree/.git"),
    *((bare, f"bare.git/{name}") for name in ("HEAD", "config", "worktrees/tree/gitdir")),
    *((bare, f"bare.git/worktrees/tree/{name}") for name in ("commondir", "HEAD")),
    *((dot_bare, f"work/{name}") for name in (".git", ".bare/HEAD", ".bare/config", "tree/.git")),
    *((dot_bare, f"work/.bare/worktrees/tree/{name}") for name in ("commondir", "gitdir")),
    *((separate, f"store/repo.git/{name}") for name in ("HEAD", "config")),
    *((separate, f"store/repo.git/worktrees/tree/{name}") for name in ("commondir", "gitdir")),
    *((separate, f"{name}/.git") for name in ("work", "tree")),
    *((submodule, f"main/.git/modules/lib/{name}") for name in ("HEAD", "config")),
    *((submodule, name) for name in ("main/lib/.git", "main/.git/HEAD", "main/.git/config")),
]


def wrong_after_damages(asker: Asker, path: Path) -> list[str]:
    """After which damages of a file, and which mendings, a running pipeline and a new one differ."""
    content = path.read_bytes()
    wrong = []
    for damage in DAMAGES:
        asker.settle()
        damage(path)
        if asker.answers(asker.running) != asker.fresh():
            wrong.append(damage.__name__)
        asker.settle()
        mend(path, content)
        if asker.answers(asker.running) != asker.fresh():
            wrong.append(f"{damage.__name__} and mended")
    return wrong


@pytest.mark.parametrize(
    ("asker", "name"),
    CASES,
    indirect=["asker"],
    ids=[f"{layout.__name__}-{name.replace('/', '-')}" for layout, name in CASES],
)
def test_a_file_of_git_that_is_damaged_and_mended(root: Path, asker: Asker, name: str) -> None:
    assert wrong_after_damages(asker, root / "w" / name) == []


SETTINGS = {
    "CLAUDE_MEM_CONTEXT_OBSERVATIONS": 3,
    "CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES": "bugfix,note",
    "CLAUDE_MEM_MODE": "mine",
    "CLAUDE_MEM_EXCLUDED_PROJECTS": "~/../w/other",
    "CLAUDE_MEM_DAEMON_STORES": {"~/../w/**": "~/more.db"},
}
OTHER_SETTINGS = {
    "CLAUDE_MEM_CONTEXT_OBSERVATIONS": "all",
    "CLAUDE_MEM_MODE": "gone",
    "CLAUDE_MEM_EXCLUDED_PROJECTS": ["~/../w/main"],
    "CLAUDE_MEM_DAEMON_STORES": {"*": ["more.db", "~/gone.db"]},
}
MODE = {"name": "Mine", "observation_types": [{"id": "bugfix"}], "observation_concepts": []}


@pytest.fixture
def configured(root: Path) -> Path:
    """A settings.json, a mode and a second store."""
    data_dir = root / "home" / ".claude-mem"
    (data_dir / "modes").mkdir()
    (data_dir / "modes" / "mine.json").write_text(json.dumps(MODE))
    (data_dir / "settings.json").write_text(json.dumps(SETTINGS))
    more = make_store(root / "home" / "more.db")
    for number in range(5):
        add_observation(more, project="main", title=f"more {number}", type="bugfix")
    return root


@pytest.mark.parametrize("asker", [plain], indirect=True)
def test_settings_that_are_damaged_and_mended(configured: Path, asker: Asker) -> None:
    """Damaged, the last good values are used; whoever starts then has none."""
    path = configured / "home" / ".claude-mem" / "settings.json"
    content = path.read_bytes()
    wrong = []
    for damage in DAMAGES:
        asker.settle()
        before = asker.fresh()
        damage(path)
        now, fresh = asker.answers(asker.running), asker.fresh()
        rejected = [warnings_of(answer).count("settings_rejected") for answer in now]
        if any(rejected) and (rejected != [1] * len(now) or rows(now) != rows(before)):
            wrong.append(damage.__name__)
        if [warnings_of(answer).count("settings_rejected") for answer in fresh] != rejected:
            wrong.append(f"{damage.__name__} without a warning")
        if not any(rejected) and now != fresh:
            wrong.append(damage.__name__)
        asker.settle()
        mend(path, content)
        if asker.answers(asker.running) != asker.fresh():
            wrong.append(f"{damage.__name__} and mended")
    assert not wrong


def warnings_of(answer: Any) -> list[str]:
    return [warning["code"] for warning in answer[0]["warnings"]]


def rows(answers: list[Any]) -> list[Any]:
    return [answer[0]["observations"] for answer in answers]


@pytest.mark.parametrize("asker", [plain], indirect=True)
@pytest.mark.parametrize("key", list(SETTINGS))
@pytest.mark.parametrize("inside", [None, "env"], ids=["flat", "in env"])
def test_a_setting_that_changes(
    configured: Path, asker: Asker, key: str, inside: str | None
) -> None:
    path = configured / "home" / ".claude-mem" / "settings.json"
    for value in (OTHER_SETTINGS.get(key, "feature"), [], {}, "", None, SETTINGS[key]):
        asker.settle()
        values = {inside: {key: value}} if inside else {key: value}
        # Without the file in between there is no last good value.
        path.unlink()
        asker.answers(asker.running)
        path.write_text(json.dumps({**SETTINGS, **values}))
        assert asker.answers(asker.running) == asker.fresh(), value


@pytest.mark.parametrize("asker", [plain], indirect=True)
@pytest.mark.parametrize("name", ["modes/mine.json", "observer-health.json"])
def test_another_file_of_the_data_dir_that_is_damaged_and_mended(
    configured: Path, asker: Asker, name: str
) -> None:
    path = configured / "home" / ".claude-mem" / name
    if name == "observer-health.json":
        path.write_text('{"consecutiveFailures": 9, "lastErrorAt": 1700000000000}')
    assert wrong_after_damages(asker, path) == []


@pytest.mark.parametrize("asker", [plain], indirect=True)
def test_folders_behind_a_pattern_that_come_and_go(configured: Path, asker: Asker) -> None:
    """What is excluded, and which checkouts a store is for, by the name of a link."""
    links = configured / "links"
    settings = {
        "CLAUDE_MEM_EXCLUDED_PROJECTS": f"{links}/*/tree,{links}/one",
        "CLAUDE_MEM_DAEMON_STORES": {f"{links}/store": "~/more.db"},
    }
    path = configured / "home" / ".claude-mem" / "settings.json"
    path.write_text(json.dumps(settings))
    steps: tuple[tuple[str, str | None], ...] = (
        *(("", ""), ("one", "w/other"), ("one", "w/main"), ("one", None), ("any", "w")),
        *(("any", None), ("store", "w/main"), ("store", "w/tree"), ("store", None), ("", None)),
    )
    for name, target in steps:
        asker.settle()
        link = links / name
        if link.is_symlink():
            link.unlink()
        if target:
            link.symlink_to(configured / target)
        elif not name:
            links.rmdir() if links.is_dir() else links.mkdir()
        assert asker.answers(asker.running) == asker.fresh(), (name, target)
