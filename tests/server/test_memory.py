"""What a large answer took goes back to the system."""

from __future__ import annotations

import os
import sys

import pytest

from claudemem_daemon.server.memory import Allocator


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc and /proc")
def test_what_lies_free_between_pieces_in_use_is_given_back() -> None:
    allocator = Allocator()
    # Too small to be mapped each by itself, and the last ones stay above the free ones.
    pieces = [bytes(20_000) for _ in range(4000)]
    kept = pieces[::400]
    high = resident()
    del pieces
    allocator.give_back()
    assert high - resident() > 60_000_000
    assert len(kept) == 10


def test_on_any_other_system_it_does_nothing_and_does_not_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    allocator = Allocator()
    allocator.keep_small()
    allocator.give_back()
