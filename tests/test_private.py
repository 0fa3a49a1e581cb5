"""What was marked as private is in no answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon.private import list_without_private, without_private
from tests.cases.world import World
from tests.cli.test_lookups import index
from tests.support.daemon import Daemon, run_to_end


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a <private>secret</private> b", "a  b"),
        ("<PRIVATE>\nsecret\n</Private>", ""),
        ("a < private >secret</private >b", "a b"),
        ("a <private>secret", "a "),
        ("<private>s<private>s</private>s</private>b", "b"),
        ("a</private>b", "ab"),
        ("a <privateer> b", "a <privateer> b"),
        ("a <private-key> b", "a <private-key> b"),
        ('a <private why="x">secret</private>b', "a b"),
        ("a &lt;private&gt;secret&lt;/private&gt;b", "a b"),
    ],
)
def test_a_private_span_is_left_out(text: str, left: str) -> None:
    assert without_private(text) == left


@given(st.lists(st.sampled_from(["<private>", "</private>", "x", "<", "secret"])))
def test_nothing_inside_a_span_is_left(parts: list[str]) -> None:
    depth, expected = 0, ""
    for part in parts:
        depth += (part == "<private>") - (part == "</private>" and depth > 0)
        if depth == 0 and "private" not in part:
            expected += part
    assert without_private("".join(parts)) == expected


def test_a_span_reaches_over_the_members_of_a_list() -> None:
    members = ("a", "b <private>secret", "secret", "secret</private> c", "d")
    assert list_without_private(members) == ("a", "b ", " c", "d")
    assert list_without_private(("<private>secret</private>", "b & c")) == ("b & c",)


def test_no_answer_shows_a_span_of_a_real_store(world: World) -> None:
    """Case private-spans: context, query, explain, lookups, hooks, news and commands."""
    daemon = world.daemon
    hidden = "seen <private>secret\nsecret</private> seen"
    spread = ["seen <private>secret", "secret", "secret</private> seen"]
    texts = ("title", "subtitle", "narrative")
    summary = ("request", "investigated", "learned", "completed", "next_steps", "notes")
    repo = world.repository("app")
    world.settings(
        {
            "CLAUDE_MEM_CONTEXT_FULL_COUNT": 9,
            "CLAUDE_MEM_CONTEXT_SHOW_LAST_MESSAGE": True,
            "CLAUDE_MEM_CONTEXT_OBSERVATION_CONCEPTS": "how-it-works",
        }
    )
    lists = {"facts": spread, "files_read": spread, "files_modified": spread}
    concepts = ["how-it-works", "<private>secret</private>"]
    start = {"hook_event_name": "SessionStart", "session_id": "s", "cwd": str(repo)}
    prompt = start | {"hook_event_name": "UserPromptSubmit", "prompt": "x"}
    world.row("app", title="first")
    answers = [daemon.post("/v1/hooks/claude-code", start)]
    row = world.row("app", **dict.fromkeys(texts, hidden), **lists, concepts=concepts)
    world.row("app", title="", narrative="<private>secret", facts=spread)
    session = world.summary("app", **dict.fromkeys(summary, hidden))
    answers.append(daemon.post("/v1/hooks/claude-code", prompt))
    answers.append(daemon.post("/v1/query", {"cwd": str(repo)}))
    answers.append(daemon.post("/v1/explain", {"cwd": str(repo), "observation": str(row)}))
    for full_field in ("narrative", "facts"):
        world.settings(
            {"CLAUDE_MEM_CONTEXT_FULL_COUNT": 9, "CLAUDE_MEM_CONTEXT_FULL_FIELD": full_field}
        )
        answers.append(daemon.get("/api/context/inject", {"cwd": str(repo)}))
    refs = f"{row},S{session}"
    answers.append(daemon.get("/v1/observations", {"ids": refs, "cwd": str(repo)}))
    answers.append(daemon.get("/v1/search", {"q": "seen", "cwd": str(repo)}))
    answers.append(daemon.get("/v1/status"))
    assert [one.status for one in answers] == [200] * len(answers)
    assert sum(b"seen" in one.body for one in answers) == len(answers) - 2
    said = [one.text for one in answers]
    for command in (("show", str(row)), ("search", "seen"), ("query",), ("context", "--human")):
        done = run_to_end(daemon.environ, *command, "--cwd", str(repo))
        assert "seen" in done.stdout
        said += [done.stdout, done.stderr]
    assert "secret" not in daemon.errors()
    for words in ("secret", "seen secret"):
        assert daemon.get("/v1/search", {"q": words, "cwd": str(repo)}).json()["observations"] == []
    assert [text for text in said if "secret" in text or "rivate>" in text] == []


@pytest.mark.parametrize("indexed", [True, False])
def test_a_search_looks_beside_private_spans(
    tmp_path: Path, daemon: Daemon, home: Path, indexed: bool
) -> None:
    world = World(home, tmp_path, daemon)
    repo = world.repository("app")
    world.row("app", title="a Caf\u00e9-bar <private>of a secret</private> kind")
    world.row("app", title="<private> is a tag", facts=["it is &lt;private", "private"])
    if indexed:
        index(world.store)

    def found(words: str) -> int:
        reply = daemon.get("/v1/search", {"q": words, "cwd": str(repo)})
        assert reply.json()["how"] == ("fts5" if indexed else "like")
        return len(reply.json()["observations"])

    assert [found(words) for words in ("caf\u00e9", "a bar kind", "secret", "bar of", "of a")] == [
        1, 1, 0, 0, 0,
    ]  # fmt: skip
