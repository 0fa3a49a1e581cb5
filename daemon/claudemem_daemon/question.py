"""What is asked: the first value of the pipeline."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

Scope = Literal["all", "parent", "self"]


@dataclass(frozen=True, slots=True)
class Question:
    """One request for memory, from a hook, from curl, from the command line or from Python.

    cwd             absolute directory as `os.fsdecode` gives it; None where `projects` has the keys
    projects        project keys asked for by name; empty where `cwd` decides
    env             the caller's `CLAUDE_MEM_*` variables, the source of settings that comes first
    scope, limit, types, concepts
                    override the setting of that name for this question; None = the setting
    platform_source only rows of sessions of this assistant; None = all
    full            no limit, every row in full, no size cap (`full=true` of the inject route)
    human           for a person's terminal (colours) instead of for a model
    session_id      the assistant's session; its own rows are not news
    transcript_path the assistant's transcript of this session, for the prior message
    since           store path -> highest observation id that the session has; only newer rows count
    until           store path -> highest observation id that counts; None = no bound

    A question is its own cache key; the mappings must not change.
    """

    cwd: str | None
    projects: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    scope: Scope | None = None
    limit: int | None = None
    types: tuple[str, ...] | None = None
    concepts: tuple[str, ...] | None = None
    platform_source: str | None = None
    full: bool = False
    human: bool = False
    session_id: str | None = None
    transcript_path: str | None = None
    since: Mapping[str, int] | None = field(default=None, hash=False)
    until: Mapping[str, int] | None = field(default=None, hash=False)


def contradiction(cwd: object, projects: Collection[str] | None, dashes: str = "") -> str | None:
    """What is wrong with a question's folder and projects, or None. `dashes` come before the names of
    command line options."""
    if cwd is not None and projects is not None:
        return f"give {dashes}cwd or {dashes}projects, not both"
    if projects is not None and not projects:
        return (
            f"{dashes}projects names no project; `claudemem-daemon worktrees` shows a folder's keys"
        )
    return None
