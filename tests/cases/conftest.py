"""One world a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases.world import World
from tests.support.daemon import Daemon


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    home = tmp_path / "home"
    root = tmp_path / "w"
    home.mkdir()
    root.mkdir()
    with Daemon(home) as daemon:
        yield World(home, root, daemon)
