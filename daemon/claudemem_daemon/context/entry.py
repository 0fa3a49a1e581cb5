"""One entry of the timeline. Pure."""

from __future__ import annotations

from typing import NamedTuple

from claudemem_daemon.context.clock import Moment
from claudemem_daemon.stores.model import StoreRef


class Entry(NamedTuple):
    """One entry of the timeline, ready to be shown with more or less of itself.

    store        where its observation is; None for a session
    moment       its local time; `day` and `offset` decide under which heading it is
    line, plain  its own line, with and without token figures
    body         lines below it, where it is shown in full
    mark         what its type shows as, for the legend
    shortened    its line had to be cut, or its body could never fit
    sizes        of line, plain and body, as the budget counts them
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
    """An entry, and all that it was made of besides its row: the `style` of every entry, the row's
    local time, and what depends on its neighbours."""

    style: tuple[object, ...]
    moment: Moment
    details: tuple[object, ...]
    entry: Entry
