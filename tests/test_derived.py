"""What was made of a value goes when the value goes."""

from __future__ import annotations

from claudemem_daemon.derived import Derived


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
