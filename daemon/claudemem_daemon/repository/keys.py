"""The project keys that name a repository's rows, each with the rule that admits it. Pure.

claude-mem named the rows of a linked worktree W of repository P by `P/W`, older releases by `W`,
and moved merged ones to `P`. Rows of worktrees that are gone are `P/...`, with exactly that prefix.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from claudemem_daemon.repository.model import (
    Match,
    ProjectKey,
    ProjectKeys,
    Repository,
    Role,
    Worktree,
)
from claudemem_daemon.repository.names import FolderNames
from claudemem_daemon.settings.exclusion import Exclusions
from claudemem_daemon.settings.model import Settings
from claudemem_daemon.settings.parsers import shown
from claudemem_daemon.warning import AnswerWarning

EXCLUDED: Final = "CLAUDE_MEM_EXCLUDED_PROJECTS"
ALIASES: Final = "CLAUDE_MEM_DAEMON_ALIASES"


def project_keys(repository: Repository, settings: Settings) -> ProjectKeys:
    """The keys for a working directory, in the scope of the settings; none if it is excluded."""
    exclusion = _Exclusion(settings)
    excluded_here = _excluded_here(repository, settings, exclusion)
    if excluded_here is not None:
        return excluded_here
    left_out = tuple(
        worktree
        for worktree in (repository.worktrees if settings.excluded_projects else ())
        if worktree is not repository.current and exclusion.pattern(worktree.path)
    )
    checkouts = tuple(
        checkout.path
        for checkout in repository.checkouts
        if checkout not in left_out and checkout.state != "replaced"
    )
    heads = (
        repository.name,
        *repository.fallback_names,
        *settings.aliases.get(repository.name, ()),
    )
    keys = list(_own(repository, settings, heads, left_out))
    if repository.kind == "none" and keys:
        checkouts = (repository.top or repository.cwd,)
    own = ProjectKeys(
        keys=tuple(keys),
        excluded=tuple(key.key for tree in left_out for key in _of_worktree(heads, tree)),
        name=_title(repository),
        checkouts=checkouts,
        warnings=(*_main_unknown(repository, settings), *_nameless(repository)),
        common_dirs=(repository.common_dir,) if repository.common_dir is not None else (),
        dependencies=exclusion.dependencies,
        here=repository.current.path if repository.current is not None else None,
        shared_folders=_shared_folders(repository, settings),
    )
    if repository.superproject is not None and settings.scope != "self":
        own = _with_outer(own, project_keys(repository.superproject, settings))
    unique: dict[tuple[str, Match], ProjectKey] = {}
    for key in own.keys:
        unique.setdefault((key.key, key.match), key)
    return own._replace(keys=tuple(unique.values()))


def _with_outer(own: ProjectKeys, outer: ProjectKeys) -> ProjectKeys:
    """The keys of a submodule, then those of the repository around it."""
    around = (key._replace(rule=f"of the superproject: {key.rule}") for key in outer.keys)
    warnings = (warning for warning in outer.warnings if warning.code != "excluded")
    return own._replace(
        keys=(*own.keys, *around),
        excluded=(*own.excluded, *outer.excluded),
        checkouts=(*own.checkouts, *outer.checkouts),
        warnings=(*own.warnings, *warnings),
        common_dirs=(*own.common_dirs, *outer.common_dirs),
        dependencies=(*own.dependencies, *outer.dependencies),
    )


class _Exclusion:
    """Folders excluded by any of their names: by the settings, or as the folder of claude-mem's own
    sessions."""

    def __init__(self, settings: Settings) -> None:
        patterns = (*settings.excluded_projects, settings.observer_folder)
        self._names = FolderNames(patterns)
        self._exclusions = Exclusions(patterns)
        # Without the sessions' folder: whoever asks from it is resolved anew when it comes or goes.
        self.dependencies = tuple(
            seen for seen in self._names.dependencies if seen.path != settings.observer_folder
        )

    def pattern(self, path: str) -> str | None:
        """The first pattern that excludes the folder."""
        found = map(self._exclusions.excluding, self._names.of(path))
        return next((pattern for pattern in found if pattern is not None), None)


def _excluded_here(
    repository: Repository, settings: Settings, exclusion: _Exclusion
) -> ProjectKeys | None:
    """No keys, where one of these folders is excluded, and with it the whole answer."""
    main = repository.main.path if repository.main is not None else None
    for path in (repository.cwd, repository.top, main, *repository.excluded_by):
        pattern = exclusion.pattern(path) if path is not None else None
        if path is not None and pattern is not None:
            # That claude-mem's own sessions are excluded needs no warning.
            own = pattern == settings.observer_folder
            warnings = () if own else (_excluded(path, pattern, settings, path),)
            name = as_key(repository.name)
            return ProjectKeys((), (), name, (), warnings, dependencies=exclusion.dependencies)
    return None


def _excluded(
    what: str, pattern: str, settings: Settings, path: str | None = None
) -> AnswerWarning:
    source = settings.sources[EXCLUDED]
    where = source.detail if source.origin == "settings" else f"the {source.origin}'s environment"
    message = (
        f"{as_key(what)} is excluded by {EXCLUDED} in {where}, pattern {shown(pattern)}:"
        " nothing is read or answered"
    )
    return AnswerWarning("excluded", message, path, EXCLUDED)


def _nameless(repository: Repository) -> Iterator[AnswerWarning]:
    """For the root folder; of a folder that is gone `repository` warns itself."""
    vanished = any(warning.code == "cwd_vanished" for warning in repository.warnings)
    if not repository.name and not vanished:
        path = repository.main.path if repository.main is not None else repository.cwd
        message = (
            f"{path} has no folder name, so no project is named after it: ask from a checkout, or"
            " for projects by name (claude-mem writes rows of the root folder as"
            " 'unknown-project')"
        )
        yield AnswerWarning("cwd_nameless", message, path)


def _main_unknown(repository: Repository, settings: Settings) -> Iterator[AnswerWarning]:
    """For a separate git directory whose main checkout, and so its rows' key, is not known."""
    name = repository.name
    known = repository.main is not None or name in settings.aliases
    if repository.kind == "separate" and not known and settings.scope != "self":
        message = (
            f"{repository.common_dir} is a separate git directory, and git does not record where"
            " its main checkout is: memory written there is missing here; name its folder by"
            f' {ALIASES}, {{"{as_key(name)}": ["FOLDER"]}}'
        )
        yield AnswerWarning("main_unknown", message, repository.common_dir, ALIASES)


def named_keys(projects: tuple[str, ...], settings: Settings) -> ProjectKeys:
    """The projects that the question names, and no others."""
    exclusions = Exclusions(settings.excluded_projects)
    keys: list[ProjectKey] = []
    warnings: list[AnswerWarning] = []
    for name in projects:
        pattern = exclusions.excluding(name)
        if pattern is None:
            role: Role = "worktree" if "/" in name else "main"
            keys.append(_key(name, "exact", role, None, "asked for by name"))
        else:
            warnings.append(_excluded(name, pattern, settings))
    title = ", ".join(map(as_key, projects))
    return ProjectKeys(tuple(keys), (), title, (), tuple(warnings))


def as_key(name: str) -> str:
    """A folder's name as claude-mem writes it: bytes that are no UTF-8 become U+FFFD."""
    return os.fsencode(name).decode("utf-8", "replace")


def _key(
    name: str, match: Match, role: Role, path: str | None, rule: str, *, bare: bool = False
) -> ProjectKey:
    return ProjectKey(as_key(name), match, role, path, rule, bare)


def _own(
    repository: Repository,
    settings: Settings,
    heads: tuple[str, ...],
    left_out: tuple[Worktree, ...],
) -> Iterator[ProjectKey]:
    name, scope = repository.name, settings.scope
    if not name:
        return
    # For a linked worktree alone the main checkout's names do not count.
    with_main = scope != "self" or repository.linked is None
    path = repository.main.path if repository.main is not None else None
    if repository.kind == "none":
        folder = repository.top or repository.cwd
        yield _key(name, "exact", "main", folder, "the folder's own name")
    elif with_main:
        rule = "the main checkout's folder" if path is not None else "the repository's name"
        yield _key(name, "exact", "main", path, rule)
        for other in repository.fallback_names:
            yield _key(other, "exact", "alias", path, "another name of this folder")
    for worktree in _in_scope(repository, settings):
        if worktree.state == "replaced" and worktree not in left_out:
            rule = f"worktree of {name}, whose folder another repository has now"
            yield _key(f"{name}/{worktree.name}", "exact", "removed", None, rule)
        elif worktree not in left_out:
            yield from _of_worktree(heads, worktree)
    removed = scope == "all" and repository.kind != "none"
    if removed:
        yield _key(f"{name}/", "prefix", "removed", None, f"rows of removed worktrees of {name}")
        for other in repository.fallback_names:
            rule = f"rows of worktrees under the other name {other}"
            yield _key(f"{other}/", "prefix", "alias", None, rule)
    for older in settings.aliases.get(name, ()) if with_main else ():
        rule = f"older name by {ALIASES}"
        yield _key(older, "exact", "alias", None, rule)
        if removed:
            yield _key(f"{older}/", "prefix", "alias", None, rule)


def _in_scope(repository: Repository, settings: Settings) -> tuple[Worktree, ...]:
    """The linked worktrees that are asked for, the current one first."""
    own = (repository.linked,) if repository.linked is not None else ()
    others = (tree for tree in repository.worktrees if tree is not repository.current)
    return (*own, *others) if settings.scope == "all" else own


def _of_worktree(heads: tuple[str, ...], worktree: Worktree) -> Iterator[ProjectKey]:
    for leaf in (worktree.name, *worktree.other_names):
        why = "" if leaf == worktree.name else f" (another name of {worktree.name})"
        for head in heads:
            rule = f"worktree of {head}{why}"
            yield _key(f"{head}/{leaf}", "exact", "worktree", worktree.path, rule)
        # Where a worktree's folder has the repository's name, that name alone is the main checkout's.
        if leaf not in heads:
            rule = f"worktree folder alone, as older releases wrote it{why}"
            yield _key(leaf, "exact", "worktree", worktree.path, rule, bare=True)


def _shares_its_key(repository: Repository) -> bool:
    """Whether other worktrees have or had the same `P/W`: some assistants name all their folders
    after the repository (`~/.codex/worktrees/<hex>/<repository>`)."""
    linked = repository.linked
    return linked is not None and (
        linked.name == repository.name
        or any(tree.name == linked.name for tree in repository.worktrees if tree is not linked)
    )


def _shared_folders(repository: Repository, settings: Settings) -> tuple[str, ...]:
    """See `ProjectKeys.shared_folders`."""
    linked, main = repository.linked, repository.main
    if settings.scope == "all" or linked is None or not _shares_its_key(repository):
        return ()
    outer = (main.path,) if settings.scope == "parent" and main is not None else ()
    return (linked.path, *outer)


def _title(repository: Repository) -> str:
    """P, or `P/W`; with the folder around W where several worktrees have that name."""
    linked = repository.linked
    if linked is None:
        return as_key(repository.name)
    parts = [repository.name, linked.name]
    if _shares_its_key(repository):
        around = os.path.basename(os.path.dirname(linked.path))
        parts[1:] = [around] if linked.name == repository.name else [around, linked.name]
    return as_key("/".join(parts))
