"""One entry of the timeline. Pure."""

from __future__ import annotations

from typing import NamedTuple

from claudemem_daemon.context.clock import Moment
from claudemem_daemon.stores.model import StoreRef


class Entry(NamedTuple):
    """One entry of the timeline, with all forms in which it may be shown.

    store        of its observation; None for a session
    moment       its local time; `day` and `offset` decide on its heading
    line, plain  its line with and without token figures
    body         lines below it where it is shown in full
    mark         the sign of its type
    labelled     whether the line says where it was written
    shortened    whether its line was cut or its body could never fit
    work, read   tokens
    sizes        of line, plain and body in units of the budget
    """

    store: StoreRef | None
    moment: Moment
    line: str
    plain: str
    mark: str
    labelled: bool
    body: tuple[str, ...] = ()
    shortened: bool = False
    work: int = 0
    read: int = 0
    sizes: tuple[int, int, int] = (0, 0, 0)


class RenderedEntry(NamedTuple):
    """An entry, and what it was made of besides its row: the `style` of all entries, the row's local
    time, and `details` that depend on the rows around it."""

    style: tuple[object, ...]
    moment: Moment
    details: tuple[object, ...]
    entry: Entry
