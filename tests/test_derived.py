"""What was made of a value goes when the value goes."""

from __future__ import annotations

from claudemem_daemon.context.entry import RenderedEntry
from claudemem_daemon.derived import Derived
from claudemem_daemon.stores.rows import Row
from tests.context.factory import context, rows, selection


class Thing:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing)

    def __hash__(self) -> int:
        return 1


def test_equal_things_are_not_taken_for_each_other() -> None:
    derived = Derived[Thing, str]()
    one, other = Thing(), Thing()
    assert derived.get(one) is None
    assert derived.put(one, "one's") == "one's"
    assert derived.get(one) == "one's"
    assert derived.get(other) is None
    derived.put(one, "new")
    assert (derived.get(one), len(derived)) == ("new", 1)


def test_nothing_is_kept_of_what_is_gone() -> None:
    derived = Derived[Thing, str]()
    things = [Thing() for _ in range(100)]
    for number, thing in enumerate(things):
        derived.put(thing, str(number))
    for thing in things[:50]:
        derived.put(thing, "again")
    del thing
    while things:
        things.pop()
        assert len(derived) == len(things)
    # Their numbers are given to new objects, which nothing was made of.
    assert all(derived.get(one) is None for one in [Thing() for _ in range(1000)])


def test_entries_are_remembered_from_the_first_rendering_on() -> None:
    rendered, chosen = Derived[Row, RenderedEntry](), selection(rows(3))
    text = context(chosen, rendered=rendered).text
    assert len(rendered) == 3
    known = [rendered.get(row.row) for row in chosen.observations]
    assert context(chosen, rendered=rendered).text == text
    assert all(
        rendered.get(row.row) is one for row, one in zip(chosen.observations, known, strict=True)
    )
