"""What a context is made of besides its selection, read here because `context` reads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from claudemem_daemon.dependencies import FileState
from claudemem_daemon.local_zone import local_zone, zone_dependencies
from claudemem_daemon.question import Question
from claudemem_daemon.selection.model import Observation
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.transcript import PriorMessage, prior_message


@dataclass(frozen=True, slots=True)
class RenderInputs:
    """`zone` is None where it is left to the C library; `prior_message` is empty where it is not
    wanted or not found."""

    zone: tzinfo | None
    prior_message: str
    dependencies: tuple[FileState, ...] = ()


def read_render_inputs(
    question: Question,
    settings: Settings,
    observations: Sequence[Observation],
    environ: Mapping[str, str],
) -> RenderInputs:
    """The local zone, and the prior message where the settings want it. Never raises."""
    prior = PriorMessage("", ())
    if settings.show_last_message and question.since is None:
        prior = prior_message(question, observations, environ)
    return RenderInputs(
        local_zone(environ), prior.text, (*prior.dependencies, *zone_dependencies(environ))
    )
