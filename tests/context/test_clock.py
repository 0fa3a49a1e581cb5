"""Times are local, and say which local."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claudemem_daemon import local_zone as zone_files
from claudemem_daemon.context.clock import Clock
from claudemem_daemon.local_zone import read_zone
from tests.context.factory import context, row, selection

TOKYO = ZoneInfo("Asia/Tokyo")
CHICAGO = ZoneInfo("America/Chicago")
LATE = int(datetime(2026, 5, 10, 23, 55, tzinfo=UTC).timestamp() * 1000)

SCRIPT = """
from datetime import UTC
from tests.context.factory import context, row, selection
print(context(selection([row(1, created_at_epoch=%d)]), zone=None).text)
"""


def test_day_and_time_are_those_of_the_local_zone() -> None:
    """Case times-shown-in-utc-unlabelled."""
    text = context(selection([row(1, created_at_epoch=LATE)]), zone=TOKYO).text
    assert "## 2026-05-11\n1 08:55 " in text
    assert text.count("UTC+09:00") == 1
    assert "times in Asia/Tokyo (UTC+09:00)" in text


@pytest.mark.parametrize(
    ("value", "time", "named"),
    [
        ("Asia/Tokyo", "## 2026-05-11\n1 08:55 ", "Asia/Tokyo (UTC+09:00)"),
        (":Asia/Tokyo", "## 2026-05-11\n1 08:55 ", "Asia/Tokyo (UTC+09:00)"),
        ("JST-9", "## 2026-05-11\n1 08:55 ", "JST (UTC+09:00)"),
        ("America/Chicago", "## 2026-05-10\n1 18:55 ", "America/Chicago (UTC-05:00)"),
        ("", "## 2026-05-10\n1 23:55 ", "times in UTC;"),
        ("No/Such", "## 2026-05-10\n1 23:55 ", "UTC"),
    ],
)
def test_the_zone_is_that_of_the_environment(value: str, time: str, named: str) -> None:
    """Case times-shown-in-utc-unlabelled: in a process of its own, as a service has it."""
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT % LATE],
        cwd=root,
        env={"PATH": os.environ["PATH"], "TZ": value, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert time in run.stdout
    assert named in run.stdout


def test_both_hours_of_a_clock_change_stay_in_order_and_apart() -> None:
    """Case times-shown-in-utc-unlabelled: 01:30 comes twice on that day in Chicago."""
    first = int(datetime(2026, 11, 1, 6, 30, tzinfo=UTC).timestamp() * 1000)
    chosen = [
        row(3, created_at_epoch=first + 3_600_000),
        row(2, created_at_epoch=first),
        row(1, created_at_epoch=first - 3_600_000),
    ]
    text = context(selection(chosen), zone=CHICAGO).text
    lines = text.splitlines()
    assert lines[-7:-2] == [
        "## 2026-11-01",
        "3 01:30 🔴 title 3",
        "## 2026-11-01, at UTC-05:00",
        "2 01:30 🔴 title 2",
        "1 00:30 🔴 title 1",
    ]
    assert "America/Chicago (UTC-06:00)" in text


def test_days_of_another_offset_are_not_marked_when_the_zone_tells() -> None:
    summer = int(datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp() * 1000)
    winter = int(datetime(2026, 12, 1, 12, tzinfo=UTC).timestamp() * 1000)
    chosen = [row(2, created_at_epoch=winter), row(1, created_at_epoch=summer)]
    text = context(selection(chosen), zone=CHICAGO).text
    assert "## 2026-07-01\n1 07:00 " in text
    assert text.count("UTC-") == 1


@given(
    st.one_of(
        st.integers(), st.sampled_from([10**15, -(10**15), 253402300799999, -62135596800000])
    ),
    st.sampled_from([UTC, TOKYO, CHICAGO, None, timezone(timedelta(hours=-12))]),
)
def test_no_time_is_too_far_away(epoch: int, zone: tzinfo | None) -> None:
    moment = Clock(zone).at(epoch)
    assert (moment.day == "undated") == (moment.time == "") == (Clock(zone).name(epoch) == "")
    assert moment.time == "" or len(moment.day) == 10


def test_rows_without_a_time_stand_under_undated() -> None:
    chosen = [row(2), row(1, created_at_epoch=None), row(3, created_at_epoch=10**18)]
    text = context(selection(chosen)).text
    assert "## Undated\n1 🔴 title 1\n3 🔴 title 3" in text


def zone_file(name: str) -> Path:
    """The system's own file of a zone, where there is one."""
    found = [Path(root, name) for root in TZPATH if Path(root, name).is_file()]
    if not found:
        pytest.skip("this system keeps no zone files")
    return found[0]


def test_a_change_of_the_systems_zone_is_in_the_next_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case times-shown-in-utc-unlabelled: a daemon without TZ, the zone changed while it runs."""
    system = tmp_path / "localtime"
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(zone_files, "SYSTEM_ZONE", str(system))
    assert read_zone(os.environ).zone is UTC
    chosen = selection([row(1, created_at_epoch=LATE)])
    for name, time in (("Asia/Tokyo", "1 08:55"), ("America/Chicago", "1 18:55")):
        fresh = tmp_path / "fresh"
        fresh.symlink_to(zone_file(name))
        fresh.replace(system)
        text = context(chosen, zone=None).text
        assert time in text
        assert name in text
    copied = tmp_path / "copied"
    shutil.copy(zone_file("Asia/Tokyo"), copied)
    copied.replace(system)
    text = context(chosen, zone=None).text
    assert "1 08:55" in text
    assert "JST (UTC+09:00)" in text


def test_the_systems_zone_is_evidence_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = selection([row(1)])
    monkeypatch.delenv("TZ", raising=False)
    found = [getattr(one, "path", "") for one in context(chosen, zone=None).dependencies]
    assert found == ["/etc/localtime"]
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert context(chosen, zone=None).dependencies == ()


@pytest.mark.parametrize("content", [b"", b"TZif2 but no more", b"\0" * 100])
def test_a_broken_zone_file_is_no_error(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "localtime"
    broken.write_bytes(content)
    monkeypatch.setattr(zone_files, "SYSTEM_ZONE", str(broken))
    assert read_zone({}).zone is UTC
    assert read_zone({"TZ": str(tmp_path)}).zone is None
    assert read_zone({"TZ": "../../etc/passwd"}).zone is None


@pytest.mark.parametrize("value", ["", ":"])
def test_an_empty_zone_is_utc(value: str) -> None:
    """The C library of Debian 13 calls it "Universal"."""
    assert read_zone({"TZ": value}).zone is UTC
