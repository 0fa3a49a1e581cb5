"""The project keys that name a repository's rows, each with the rule that admits it. Pure.

claude-mem named the rows of a linked worktree W of repository P by `P/W`, older releases by `W`,
and moved merged ones to `P`. Rows of worktrees that are gone are `P/...`, with exactly that prefix.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from claudemem_daemon.question import Scope
from claudemem_daemon.repository.model import ProjectKey, ProjectKeys, Repository, Role, Worktree
from claudemem_daemon.settings.exclusion import excluded, excluding
from claudemem_daemon.settings.keys import shown
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.warning import AnswerWarning

EXCLUDED: Final = "CLAUDE_MEM_EXCLUDED_PROJECTS"


def project_keys(repository: Repository, settings: Settings) -> ProjectKeys:
    """The keys for a working directory, in the scope of the settings; none if it is excluded."""
    patterns = settings.excluded_projects
    hit = next((path for path in _judged(repository) if excluded(path, patterns)), None)
    if hit is not None:
        warning = _excluded(hit, settings, path=hit)
        return ProjectKeys((), (), as_key(repository.name), (), (warning,))
    left_out = tuple(
        one
        for one in repository.worktrees
        if one is not repository.current and excluded(one.path, patterns)
    )
    keys = list(_own(repository, settings, left_out))
    checkouts = [one.path for one in repository.checkouts if one not in left_out]
    common_dirs = [repository.common_dir] if repository.common_dir is not None else []
    warnings = list(_main_unknown(repository, settings))
    away = [key for one in left_out for key in _names(repository.name, one)]
    around = repository.superproject
    if around is not None and settings.scope != "self":
        outer = project_keys(around, settings)
        keys += [
            ProjectKey(
                one.key, one.match, one.role, one.path, f"of the superproject: {one.rule}", one.bare
            )
            for one in outer.keys
        ]
        checkouts += outer.checkouts
        common_dirs += outer.common_dirs
        warnings += [one for one in outer.warnings if one.code != "excluded"]
        away += outer.excluded
    unique = {(one.key, one.match): one for one in reversed(keys)}
    return ProjectKeys(
        keys=tuple(one for one in keys if unique[one.key, one.match] is one),
        excluded=tuple(dict.fromkeys(away)),
        name=_title(repository),
        checkouts=tuple(dict.fromkeys(checkouts)),
        warnings=(*warnings, *_nameless(repository)),
        common_dirs=tuple(dict.fromkeys(common_dirs)),
    )


def _nameless(repository: Repository) -> tuple[AnswerWarning, ...]:
    """For the root folder; of a folder that is gone `repository` says so itself."""
    if repository.name or any(one.code == "cwd_vanished" for one in repository.warnings):
        return ()
    path = repository.main.path if repository.main is not None else repository.cwd
    message = (
        f"{path} has no folder name, so no project is named after it: ask from a checkout, or for"
        " projects by name (claude-mem writes rows of the root folder as 'unknown-project')"
    )
    return (AnswerWarning("cwd_nameless", message, path),)


def _excluded(what: str, settings: Settings, path: str | None = None) -> AnswerWarning:
    pattern = excluding(what, settings.excluded_projects)
    source = settings.sources[EXCLUDED]
    where = source.detail if source.origin == "settings" else f"the {source.origin}'s environment"
    message = (
        f"{as_key(what)} is excluded by {EXCLUDED} in {where}, pattern {shown(pattern)}:"
        " nothing is read or answered"
    )
    return AnswerWarning("excluded", message, path, EXCLUDED)


def _main_unknown(repository: Repository, settings: Settings) -> Iterator[AnswerWarning]:
    """Nothing tells the main checkout of a separate git directory, and so neither its rows' key."""
    name = repository.name
    known = repository.main is not None or name in settings.aliases
    if repository.kind != "separate" or known or settings.scope == "self":
        return
    message = (
        f"{repository.common_dir} is a separate git directory, and git does not record where its"
        " main checkout is: memory written there is missing here; name its folder by"
        f' CLAUDE_MEM_DAEMON_ALIASES, {{"{as_key(name)}": ["FOLDER"]}}'
    )
    yield AnswerWarning("main_unknown", message, repository.common_dir, "CLAUDE_MEM_DAEMON_ALIASES")


def named_keys(projects: tuple[str, ...], settings: Settings) -> ProjectKeys:
    """Keys that were asked for by name: those and no others."""
    kept = [one for one in projects if not excluded(one, settings.excluded_projects)]
    left_out = [one for one in dict.fromkeys(projects) if one not in kept]
    return ProjectKeys(
        keys=tuple(
            ProjectKey(
                as_key(one),
                "exact",
                "worktree" if "/" in one else "main",
                None,
                "asked for by name",
            )
            for one in dict.fromkeys(kept)
        ),
        excluded=(),
        name=", ".join(as_key(one) for one in projects),
        checkouts=(),
        warnings=tuple(_excluded(one, settings) for one in left_out),
    )


def as_key(name: str) -> str:
    """A folder's name as claude-mem writes it: bytes that are no UTF-8 become U+FFFD."""
    return os.fsencode(name).decode("utf-8", "replace")


def _judged(repository: Repository) -> Iterator[str]:
    """The paths whose exclusion silences the whole answer."""
    yield repository.cwd
    if repository.top is not None:
        yield repository.top
    if repository.main is not None:
        yield repository.main.path


def _own(
    repository: Repository, settings: Settings, left_out: tuple[Worktree, ...]
) -> Iterator[ProjectKey]:
    name = repository.name
    if not name:
        return
    main = repository.main
    path = main.path if main is not None else None
    current = repository.current
    linked = current is not None and not current.main
    scope: Scope = settings.scope
    whole: Role = "main"
    if repository.kind == "none":
        yield ProjectKey(as_key(name), "exact", "main", repository.cwd, "the folder's own name")
        yield from _aliases(name, settings, prefix=False)
        return
    if scope != "self" or not linked:
        rule = "the main checkout's folder" if main is not None else "the repository's name"
        yield ProjectKey(as_key(name), "exact", whole, path, rule)
        for other in repository.fallback_names:
            yield ProjectKey(as_key(other), "exact", "alias", path, "another name of this folder")
    for one in repository.worktrees:
        if one in left_out or (scope != "all" and one is not current):
            continue
        yield from _of_worktree(name, one)
    if scope == "all":
        yield ProjectKey(
            as_key(name) + "/", "prefix", "removed", None, f"rows of removed worktrees of {name}"
        )
        for other in repository.fallback_names:
            rule = f"rows of worktrees under the other name {other}"
            yield ProjectKey(as_key(other) + "/", "prefix", "alias", None, rule)
    yield from _aliases(name, settings, prefix=scope == "all")


def _of_worktree(name: str, one: Worktree) -> Iterator[ProjectKey]:
    for leaf in (one.name, *one.other_names):
        why = "" if leaf == one.name else f" (another name of {one.name})"
        yield ProjectKey(
            as_key(f"{name}/{leaf}"), "exact", "worktree", one.path, f"worktree of {name}{why}"
        )
        rule = f"worktree folder alone, as older releases wrote it{why}"
        yield ProjectKey(as_key(leaf), "exact", "worktree", one.path, rule, bare=True)


def _aliases(name: str, settings: Settings, *, prefix: bool) -> Iterator[ProjectKey]:
    rule = "older name by CLAUDE_MEM_DAEMON_ALIASES"
    for older in settings.aliases.get(name, ()):
        yield ProjectKey(as_key(older), "exact", "alias", None, rule)
        if prefix:
            yield ProjectKey(as_key(older) + "/", "prefix", "alias", None, rule)


def _names(name: str, one: Worktree) -> list[str]:
    leaves = (one.name, *one.other_names)
    return [as_key(key) for leaf in leaves for key in (f"{name}/{leaf}", leaf)]


def _title(repository: Repository) -> str:
    current = repository.current
    if current is None or current.main:
        return as_key(repository.name)
    return as_key(f"{repository.name}/{current.name}")
