"""What people see: in terminals of several widths, without colours, and through a pipe."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases.world import World, new_world
from tests.cli.running import ours
from tests.support.daemon import Daemon, clean_environ, command, eventually, run_to_end

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COMMANDS = (
    ["status"], ["query"], ["explain"], ["explain", "1"], ["worktrees"], ["config"], ["doctor"],
    ["projects"], ["search", "learned"], ["show", "1"], ["explain", "--verbose"],
)  # fmt: skip
DOING = (
    ["hooks", "install", "cursor"], ["hooks", "install", "cursor"], ["hooks", "uninstall", "cursor"],
    ["service", "status"], ["service", "uninstall"], ["allow"], ["deny"], ["start"], ["reload"],
    ["logs"], ["stop"],
)  # fmt: skip
LONG = "a very long title that was learned " * 8


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("s")
    home, root = folder / "home", folder / "home" / "w"
    root.mkdir(parents=True)
    with Daemon(home) as daemon:
        made = World(home, root, daemon)
        made.repository("app", "app-a")
        for number in range(70):
            kind = ("bugfix", "feature", "lunch", "bug fix")[number % 4]
            project = ("app", "app/app-a", "app/app-gone-for-long")[number % 3]
            epoch = 1_767_225_600_000 + number * 9 * 3_600_000
            made.row(project, type=kind, title=f"{number} {LONG}", created_at_epoch=epoch)
        made.settings({"CLAUDE_MEM_CONTEXT_OBSERVATIONS": 20})
        yield made


class Terminal:
    """A command in a terminal of so many columns."""

    def __init__(self, world: World, *words: str, width: int = 80, **env: str) -> None:
        self.end, its_end = pty.openpty()
        fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        self.process = subprocess.Popen(
            [*command(), *words],
            env=clean_environ(world.home, **{"TERM": "xterm-256color", "LANG": "C.UTF-8", **env}),
            cwd=world.root / "app",
            stdin=subprocess.DEVNULL,
            stdout=its_end,
            stderr=its_end,
        )
        os.close(its_end)
        self.text = ""

    def read(self) -> bool:
        """Some more of its output; False at the end."""
        with contextlib.suppress(OSError):  # at the end Linux has an I/O error for it
            chunk = os.read(self.end, 65536)
            self.text += chunk.decode("utf-8", "replace").replace("\r\n", "\n")
            return bool(chunk)
        return False

    def close(self) -> int:
        while self.read():
            pass
        os.close(self.end)
        return self.process.wait(60)


def shown(world: World, *words: str, width: int = 80, **env: str) -> str:
    terminal = Terminal(world, *words, width=width, **env)
    assert terminal.close() in (0, 1)
    return terminal.text


@pytest.mark.parametrize("width", [60, 160])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_it_fits_the_terminal(world: World, words: list[str], width: int) -> None:
    text = shown(world, *words, width=width)
    assert ESCAPE.search(text), "colours"
    if words == ["projects"]:
        dumb = shown(world, *words, width=width, TERM="dumb")
        assert not ESCAPE.search(dumb)
        text += dumb
    for line in ESCAPE.sub("", text).splitlines():
        # What is to be copied is wrapped by the terminal itself.
        copied = re.match(r" *(fix|next):| *sqlite3 ", line)
        assert len(line) <= width or copied, line
        assert line == line.rstrip(), line


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_pipe_and_no_color_get_no_colours(world: World, words: list[str]) -> None:
    done = ours(world, *words, TERM="xterm-256color")
    assert not ESCAPE.search(done.stdout + done.stderr)
    if words == ["status"]:
        assert not ESCAPE.search(shown(world, *words, NO_COLOR="1"))


@pytest.mark.parametrize("look", ["terminal", "pipe", "no color"])
def test_what_a_command_did_has_colours_in_a_terminal_alone(tmp_path: Path, look: str) -> None:
    with new_world(tmp_path) as made:
        made.repository("app")
        for words in DOING:
            if look == "pipe":
                done = ours(made, *words, TERM="xterm-256color")
                text = done.stdout + done.stderr
            else:
                text = shown(made, *words, NO_COLOR="1" if look == "no color" else "")
            assert text.strip(), words
            assert bool(ESCAPE.search(text)) is (look == "terminal"), (words, text)
            assert words == ["logs"] or str(made.home) not in text, (words, text)


def test_a_wait_of_over_a_second_is_shown(tmp_path: Path) -> None:
    with new_world(tmp_path) as made:
        made.repository("app")
        os.kill(made.daemon.pid, signal.SIGSTOP)
        terminal = Terminal(made, "query")
        eventually(lambda: terminal.read() and "asking the daemon" in terminal.text, "a spinner")
        assert terminal.close() == 0
        assert "no observations" in terminal.text
        assert "asking the daemon" not in ours(made, "query").stderr


@pytest.mark.parametrize("running", [True, False])
def test_a_trouble_is_told_once(tmp_path: Path, *, running: bool) -> None:
    """Also where a terminal shows standard output and standard error."""
    with new_world(tmp_path) as made:
        made.repository("app")
        Path(made.store).write_bytes(b"no SQLite file")
        if not running:
            assert made.daemon.stop() == 0
        for words in ("status", "context", "query", "explain", "doctor", "search", "projects"):
            arguments = (words, "x") if words == "search" else (words,)
            terminal = Terminal(made, *arguments, width=160)
            code = terminal.close()
            text = ESCAPE.sub("", terminal.text)
            assert text.count("no SQLite file") == 1, text
            fixes = re.findall(r"^ *(?:fix|next): (mv .*)", text, re.M)
            advised = words in ("status", "context", "explain", "doctor")
            assert len(fixes) == advised or (words == "status" and not running), text
            codes = {"status": 1 if running else 3, "doctor": 0 if running else 1}
            assert code == codes.get(words, 0), text


def test_nothing_is_cut_in_a_pipe(world: World) -> None:
    for words in (["query", "--limit", "3"], ["search", "learned"], ["show", "1"]):
        text = ours(world, *words).stdout
        assert LONG.strip() in text
        assert "…" not in text
    path = str(world.root / "app-a").removeprefix(str(world.home))
    assert f"~{path}" in ours(world, "worktrees").stdout


@pytest.mark.parametrize("words", ["status", "doctor"])
def test_nothing_is_cut_in_a_narrow_terminal(world: World, words: str) -> None:
    text = ESCAPE.sub("", shown(world, words, width=40))
    assert "…" not in text
    assert "~/.claude-mem/daemon/daemon.sock" in re.sub(r"\s", "", text)


def test_the_home_folder_is_a_tilde(world: World) -> None:
    assert "~/.claude-mem/claude-mem.db" in ours(world, "status").stdout
    assert f"settings file: ~/{'.claude-mem/settings.json'}" in ours(world, "config").stdout


def test_the_picture_adds_up(world: World) -> None:
    """The bars of a project are as long as its first line says, and cut where the limit cuts."""
    text = ours(world, "explain").stdout
    for block in re.findall(r"\n\n(app[^\n]*: [0-9]+ rows?)\n((?:  [^\n]+\n?)+)", text):
        total = int(re.findall(r": ([0-9]+) row", block[0])[0])
        steps = re.findall(r"^  [a-z' ]+? +([0-9]+)  ( *)([█░]+)$", block[1], re.M)
        assert sum(int(count) for count, _, _ in steps) == total
        ends = 0
        for _, blank, bar in steps:
            assert len(blank) == ends
            ends += len(bar)
    assert "the limit of 20 cuts here" in text
    assert text.startswith("20 of 70 rows of app are shown; ")
    assert "lunch 17" in text
    assert text.count("did you mean bugfix?") == 1
    assert "'bug fix' (17 rows): did you mean bugfix?" in text


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="there is no sqlite3 to paste into")
def test_the_sql_can_be_pasted(world: World) -> None:
    """It gives the rows that pass the filters, those of the answer among them."""
    text = ours(world, "explain", "--verbose").stdout
    (line,) = re.findall(r"^  (sqlite3 .*)$", text, re.M)
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
    found = {int(row.split("|")[0]) for row in done.stdout.splitlines()}
    answer = world.query(world.root / "app", limit=70)["observations"]
    assert found == {row["id"] for row in answer}
    assert re.search(r"^answered in [0-9.]+ ms$", text, re.M)


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LANG": "C"}])
def test_a_terminal_without_these_signs_gets_others(world: World, locale: dict[str, str]) -> None:
    environ = clean_environ(world.home, **locale, PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    app = world.root / "app"
    done = run_to_end(environ, "explain", cwd=app, program=command())
    assert done.returncode == 0
    assert "####" in done.stdout
    assert "█" not in done.stdout


def test_watch_is_a_live_screen(world: World) -> None:
    terminal = Terminal(world, "status", "--watch")
    eventually(lambda: terminal.read() and "next: " in terminal.text, "the first screen")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.close() == 0
    assert "\x1b[?1049h" in terminal.text
    assert terminal.text.endswith("\x1b[?1049l")


def test_a_command_that_does_not_exist_has_a_neighbour(world: World) -> None:
    done = ours(world, "statsu")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such command 'statsu'. (Did you mean one of: 'start', 'status'?)" in done.stderr
    assert "Did you mean 'install'?" not in ours(world, "hooks", "xyzzy").stderr
    assert "Did you mean one of: 'install', 'uninstall'?" in ours(world, "hooks", "instal").stderr


@pytest.mark.parametrize(
    "words",
    [["query", "--json"], ["context", "--json"], ["explain", "--json"], ["search", "x", "--json"],
     ["status", "--json"], ["projects", "--json"], ["worktrees", "--json"], ["config", "--json"],
     ["doctor", "--json"], ["show", "1", "--json"], ["--help"]],
    ids=" ".join,
)  # fmt: skip
def test_only_what_people_read_imports_rich(world: World, words: list[str]) -> None:
    script = (
        "import sys\n"
        "from claudemem_daemon.__main__ import main\n"
        f"sys.argv = ['claudemem-daemon', *{words!r}]\n"
        "main()\n"
        "sys.exit('rich' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=clean_environ(world.home), cwd=world.root / "app",
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_plurals_are_right(world: World) -> None:
    own = Path(world.root / "one")
    world.repository("one", "one-tree")
    world.row("one", title="single")
    status = subprocess.run(
        [*command(), "status"], env=clean_environ(world.home), cwd=own, capture_output=True,
        text=True, check=False,
    ).stdout  # fmt: skip
    assert "1 linked worktree (" in status
    assert "1 of 1 row of one is shown" in status
