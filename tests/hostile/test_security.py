"""SECURITY.md names a test for each of its sentences, and each of them is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_sentence_names_a_test_that_exists() -> None:
    promises = TEXT.partition("## What is trusted")[2].partition("## What this is no")[0]
    sentences = re.split(r"^- ", promises, flags=re.MULTILINE)[1:]
    assert sentences
    for sentence in sentences:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", sentence)
        assert named, sentence
        for path, test in named:
            assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), (path, test)
