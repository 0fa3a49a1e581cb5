"""The project keys that name a repository's rows, each with the rule that admits it. Pure.

claude-mem named the rows of a linked worktree W of repository P by `P/W`, older releases by `W`,
and moved merged ones to `P`. Rows of worktrees that are gone are `P/...`, with exactly that prefix.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from claudemem_daemon.question import Scope
from claudemem_daemon.repository.model import ProjectKey, ProjectKeys, Repository, Worktree
from claudemem_daemon.repository.names import FolderNames
from claudemem_daemon.settings.exclusion import excluded, excluding, expanded
from claudemem_daemon.settings.keys import shown
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.warning import AnswerWarning

EXCLUDED: Final = "CLAUDE_MEM_EXCLUDED_PROJECTS"


def project_keys(repository: Repository, settings: Settings) -> ProjectKeys:
    """The keys for a working directory, in the scope of the settings; none if it is excluded."""
    exclusion = Exclusion((*settings.excluded_projects, settings.observer_folder))
    for path in _judged(repository):
        pattern = exclusion.pattern_for(path)
        if pattern is not None:
            # claude-mem's own sessions are no mistake to be told of.
            own = pattern == settings.observer_folder
            told = () if own else (_excluded(path, pattern, settings, path=path),)
            name = as_key(repository.name)
            return ProjectKeys((), (), name, (), told, dependencies=exclusion.dependencies)
    left_out = tuple(
        worktree
        for worktree in (repository.worktrees if settings.excluded_projects else ())
        if worktree is not repository.current and exclusion.pattern_for(worktree.path) is not None
    )
    keys = list(_own(repository, settings, left_out))
    checkouts = [
        checkout.path
        for checkout in repository.checkouts
        if checkout not in left_out and checkout.state != "replaced"
    ]
    if repository.kind == "none" and keys:
        checkouts = [repository.top or repository.cwd]
    common_dirs = [repository.common_dir] if repository.common_dir is not None else []
    warnings = list(_main_unknown(repository, settings))
    excluded_keys = [key for one in left_out for key in _names(_heads(repository, settings), one)]
    dependencies = exclusion.dependencies
    around = repository.superproject
    if around is not None and settings.scope != "self":
        outer = project_keys(around, settings)
        keys += [replace(key, rule=f"of the superproject: {key.rule}") for key in outer.keys]
        checkouts += outer.checkouts
        common_dirs += outer.common_dirs
        warnings += [one for one in outer.warnings if one.code != "excluded"]
        excluded_keys += outer.excluded
        dependencies += outer.dependencies
    unique = {(key.key, key.match): key for key in reversed(keys)}
    return ProjectKeys(
        keys=tuple(key for key in keys if unique[key.key, key.match] is key),
        excluded=tuple(dict.fromkeys(excluded_keys)),
        name=_title(repository),
        checkouts=tuple(dict.fromkeys(checkouts)),
        warnings=(*warnings, *_nameless(repository)),
        common_dirs=tuple(dict.fromkeys(common_dirs)),
        dependencies=dependencies,
        here=repository.current.path if repository.current is not None else None,
        shared_folders=_shared_folders(repository, settings),
    )


class Exclusion:
    """Judges folders by all their names. For one answer."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = patterns
        self._names = FolderNames(expanded(pattern) for pattern in patterns)
        self.dependencies = tuple(self._names.dependencies)

    def pattern_for(self, path: str) -> str | None:
        """The first pattern that excludes the folder."""
        if not self._patterns:
            return None
        found = (excluding(name, self._patterns) for name in self._names.of(path))
        return next((pattern for pattern in found if pattern is not None), None)


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


def _excluded(
    what: str, pattern: str | None, settings: Settings, path: str | None = None
) -> AnswerWarning:
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
        warnings=tuple(
            _excluded(one, excluding(one, settings.excluded_projects), settings) for one in left_out
        ),
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
    yield from repository.excluded_by


def _own(
    repository: Repository, settings: Settings, left_out: tuple[Worktree, ...]
) -> Iterator[ProjectKey]:
    name = repository.name
    if not name:
        return
    path = repository.main.path if repository.main is not None else None
    scope: Scope = settings.scope
    aliases = settings.aliases.get(name, ())
    alias_rule = "older name by CLAUDE_MEM_DAEMON_ALIASES"
    if repository.kind == "none":
        folder = repository.top or repository.cwd
        yield ProjectKey(as_key(name), "exact", "main", folder, "the folder's own name")
    elif scope != "self" or not _is_linked(repository):
        rule = "the main checkout's folder" if path is not None else "the repository's name"
        yield ProjectKey(as_key(name), "exact", "main", path, rule)
        for other in repository.fallback_names:
            yield ProjectKey(as_key(other), "exact", "alias", path, "another name of this folder")
    for worktree in _in_scope(repository, scope):
        if worktree not in left_out:
            yield from _of_worktree(_heads(repository, settings), worktree)
    if scope == "all" and repository.kind != "none":
        rule = f"rows of removed worktrees of {name}"
        yield ProjectKey(as_key(name) + "/", "prefix", "removed", None, rule)
        for other in repository.fallback_names:
            rule = f"rows of worktrees under the other name {other}"
            yield ProjectKey(as_key(other) + "/", "prefix", "alias", None, rule)
    for older in aliases if scope != "self" or not _is_linked(repository) else ():
        yield ProjectKey(as_key(older), "exact", "alias", None, alias_rule)
        if scope == "all" and repository.kind != "none":
            yield ProjectKey(as_key(older) + "/", "prefix", "alias", None, alias_rule)


def _is_linked(repository: Repository) -> bool:
    return repository.current is not None and not repository.current.main


def _in_scope(repository: Repository, scope: Scope) -> tuple[Worktree, ...]:
    """The linked worktrees that are asked for, the current one first."""
    current = repository.current
    own = (current,) if current is not None and not current.main else ()
    others = (one for one in repository.worktrees if one is not current)
    return (*own, *others) if scope == "all" else own


def _heads(repository: Repository, settings: Settings) -> tuple[str, ...]:
    """All that can stand for P in `P/W`."""
    aliases = settings.aliases.get(repository.name, ())
    return (repository.name, *repository.fallback_names, *aliases)


def _of_worktree(heads: tuple[str, ...], worktree: Worktree) -> Iterator[ProjectKey]:
    name = heads[0]
    if worktree.state == "replaced":
        rule = f"worktree of {name}, whose folder another repository has now"
        yield ProjectKey(as_key(f"{name}/{worktree.name}"), "exact", "removed", None, rule)
        return
    for leaf in (worktree.name, *worktree.other_names):
        why = "" if leaf == worktree.name else f" (another name of {worktree.name})"
        for head in heads:
            key = as_key(f"{head}/{leaf}")
            rule = f"worktree of {head}{why}"
            yield ProjectKey(key, "exact", "worktree", worktree.path, rule)
        # Of a worktree in a folder of the repository's name that name alone is the main checkout's.
        if leaf not in heads:
            rule = f"worktree folder alone, as older releases wrote it{why}"
            yield ProjectKey(as_key(leaf), "exact", "worktree", worktree.path, rule, bare=True)


def _names(heads: tuple[str, ...], worktree: Worktree) -> list[str]:
    leaves = (worktree.name, *worktree.other_names)
    names = [f"{head}/{leaf}" for leaf in leaves for head in heads]
    return [as_key(name) for name in (*names, *(leaf for leaf in leaves if leaf not in heads))]


def _shares_its_key(repository: Repository) -> bool:
    """Whether other worktrees have or had the current one's `P/W`: assistants make them in folders
    that are all named after the repository (`~/.codex/worktrees/<hex>/<repository>`)."""
    current = repository.current
    if current is None or current.main:
        return False
    others = [one for one in repository.worktrees if one is not current]
    return current.name == repository.name or any(one.name == current.name for one in others)


def _shared_folders(repository: Repository, settings: Settings) -> tuple[str, ...]:
    """See `ProjectKeys.shared_folders`."""
    current = repository.current
    if settings.scope == "all" or current is None or not _shares_its_key(repository):
        return ()
    main = repository.main
    outer = (main.path,) if settings.scope == "parent" and main is not None else ()
    return (current.path, *outer)


def _title(repository: Repository) -> str:
    """P, or `P/W`; with the folder around W where W alone does not tell which worktree it is."""
    current = repository.current
    if current is None or current.main:
        return as_key(repository.name)
    parts = [repository.name, current.name]
    if _shares_its_key(repository):
        around = os.path.basename(os.path.dirname(current.path))
        parts[1:] = [around] if current.name == repository.name else [around, current.name]
    return as_key("/".join(parts))
