"""Break rules all over the package and see a test notice each: `python -m tests.mutations.package`.

As `tests.mutations.resolver`, but each mutation names the tests that must fail on it: such
as run in their own process, for an installed command is not the broken copy.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from tests.mutations.resolver import passes


@dataclass(frozen=True)
class Mutation:
    """`old` occurs once in `file` of the package; one of `tests` must fail without it."""

    rule: str
    file: str
    old: str
    new: str
    tests: str


MUTATIONS: Final = (
    Mutation(
        "a file written just now proves nothing",
        "dependencies.py",
        "RACY_NS = 50_000_000",
        "RACY_NS = 0",
        "stores/test_read_only.py",
    ),
    Mutation(
        "a connection writes nothing",
        "stores/connection.py",
        "PRAGMA query_only = 1",
        "PRAGMA query_only = 0",
        "stores/test_read_only.py",
    ),
    Mutation(
        "a store's own schema runs nothing",
        "stores/connection.py",
        "    db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)",
        "    db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 1)",
        "stores/test_read_only.py",
    ),
    Mutation(
        "a store that was not read is not marked as told",
        "server/hooks/reply.py",
        "        if path in read\n",
        "",
        "hooks/test_platforms.py::test_a_store_that_failed_half_way_is_not_marked_as_told",
    ),
    Mutation(
        "a context is not one character over its limit",
        "context/fit.py",
        "self.size - 1 <= self.budget.limit",
        "self.size - 2 <= self.budget.limit",
        "context/test_size.py::test_no_text_is_one_character_over",
    ),
    Mutation(
        "a thread that has taken work is not idle",
        "server/workers.py",
        "self._condition.wait()\n                self._idle -= 1\n",
        "self._condition.wait()\n",
        "server/test_workers.py",
    ),
    Mutation(
        "a name of another repository counts in whichever table it is",
        "stores/names.py",
        'having = " OR ".join(',
        'having = " AND ".join(',
        "selection/test_key_matching.py",
    ),
    Mutation(
        "a project of another letter case is another one",
        "stores/sql.py",
        'f"{expression} COLLATE BINARY"',
        "expression",
        "stores/test_broken_tables.py",
    ),
    Mutation(
        "a row whose session cannot be read is shown",
        "stores/failures.py",
        "        elif schema.sessions:\n",
        "        elif False:\n",
        "stores/test_broken_tables.py",
    ),
    Mutation(
        "rows that the context has no room for are not said to be in it",
        "selection/accounting.py",
        '"included" if distinct <= shown else "over_size"',
        '"included"',
        "test_api.py",
    ),
    Mutation(
        "a row tells its time where the row above could not be written",
        "context/entries.py",
        "        details = (full, time, label, shown.of)\n",
        "        details = (full, time, label, shown.of)\n"
        "        self.moment, self.origin = moment, origin\n",
        "context/test_unwritable.py",
    ),
    Mutation(
        "another repository's row hides no copy of ours",
        "selection/merge.py",
        "            elif keep(chosen):\n                included.add(chosen, likeness)\n",
        "            elif included.add(chosen, likeness) or keep(chosen):\n",
        "selection/test_merge.py",
    ),
    Mutation(
        "equal content of two projects in one store is two rows",
        "selection/merge.py",
        "copy.origin is not origin or copy.row.project == row.project",
        "True",
        "selection/test_merge.py",
    ),
    Mutation(
        "rows of equal titles are told apart by their narratives",
        "selection/merge.py",
        "[first] if content_key(first.row) == content else []",
        "[first]",
        "selection/test_merge.py",
    ),
    Mutation(
        "an entry is taken again only where its neighbours say the same",
        "context/entries.py",
        "known is None or known.details != details",
        "known is None",
        "context/test_page.py",
    ),
    Mutation(
        "an entry is taken again only in its own style",
        "context/entries.py",
        "known.style != self.style",
        "False",
        "context/test_page.py",
    ),
    Mutation(
        "a row that cannot be shown costs that row of a query",
        "selection/lost.py",
        "            return []\n",
        "            raise\n",
        "selection/test_select.py::test_a_fault_of_ours_in_a_row_costs_that_row_and_says_so",
    ),
    Mutation(
        "a folder name that another repository has is no key",
        "selection/admission.py",
        "        if other:\n",
        "        if False:\n",
        "selection/test_key_matching.py",
    ),
    Mutation(
        "what was not compared is not said to be over the limit",
        "selection/accounting.py",
        '"over_limit" if counted and accounts.full else "not_read"',
        '"over_limit"',
        "selection/test_accounting.py",
    ),
    Mutation(
        "what was asked for by its session alone is no news to it",
        "selection/select.py",
        "not_of=question.session_id if question.since is not None else None",
        "not_of=None",
        "selection/test_select.py",
    ),
    Mutation(
        "what a store holds opens no tag",
        "context/sanitize.py",
        '    r"[`|\\[\\]<]"',
        '    r"[`|\\[\\]]"',
        "context/test_stranger.py",
    ),
    Mutation(
        "an open private span reaches to the end",
        "private.py",
        '(text[start:] if depth == 0 else "")',
        "text[start:]",
        "test_private.py",
    ),
    Mutation(
        "a row that cannot be written costs that row",
        "context/entries.py",
        "            return ()\n",
        "            raise\n",
        "context/test_unwritable.py",
    ),
    Mutation(
        "a cut is said in the text",
        "context/fit.py",
        "            yield self._note(lost)\n",
        "            pass\n",
        "context/test_size.py",
    ),
    Mutation(
        "a value is given while its dependencies hold",
        "memo.py",
        "if all_hold(entry.dependencies):",
        "if True:",
        "test_memo.py",
    ),
    Mutation(
        "a watched list in which a link changed is read again",
        "notices.py",
        "        return not queued[0]\n",
        "        return True\n",
        "repository/test_many.py",
    ),
    Mutation(
        "a row of an excluded checkout that was merged into a key is not shown",
        "selection/ownership.py",
        "        if row.project in self._excluded:\n",
        "        if False:\n",
        "selection/test_select.py",
    ),
    Mutation(
        "a summary that names no file is judged by the files of its session",
        "selection/ownership.py",
        "        if row.paths or not row.of_session:\n",
        "        if True:\n",
        "cases/test_same_name.py::test_a_summary_without_files_is_judged_by_its_session",
    ),
    Mutation(
        "a row is among the news only once",
        "selection/sources.py",
        "question.since.get(source.ref.path, 0)",
        "0",
        "selection/test_select.py",
    ),
    Mutation(
        "a list of allowed stores that others may write allows none",
        "stores/trust.py",
        "st_mode & 0o022",
        "st_mode & 0",
        "stores/test_trust.py",
    ),
    Mutation(
        "an agent's own transcript holds no last words",
        "transcript.py",
        'startswith("agent-")',
        'startswith("no-agent-")',
        "context/test_transcript.py",
    ),
    Mutation(
        "what the caller sets wins over what the daemon was started with",
        "settings/precedence.py",
        """        of_caller = self.caller.get(key.name)
        found = self._parsed("caller", key, of_caller)""",
        """        of_caller = None
        found = None""",
        "settings/test_configuration.py",
    ),
    Mutation(
        "a wrong value gives way to the last good one",
        "settings/settings_file.py",
        "            elif name in before:\n",
        "            elif False:\n",
        "settings/test_configuration.py",
    ),
    Mutation(
        "a settings.json that is damaged takes no value away",
        "settings/settings_file.py",
        "            before,\n            dependencies=",
        "            LoadedFile(dependencies),\n            dependencies=",
        "settings/test_configuration.py",
    ),
    Mutation(
        "what is under `env` in settings.json wins over the same key above",
        "settings/sources.py",
        "{**values, **nested}",
        "{**nested, **values}",
        "settings/test_configuration.py",
    ),
    Mutation(
        "what a checkout puts into the environment does not lift an exclusion",
        "settings/checkout_env.py",
        "name: suspects[name] for name in named_by",
        "name: suspects[name] for name in ()",
        "settings/test_checkout_env.py",
    ),
    Mutation(
        "an exclusion ends with a folder's name",
        "settings/exclusion.py",
        "steps[-1] += _END",
        "pass",
        "settings/test_exclusion.py",
    ),
    Mutation(
        "an edit that no stat shows is read when it is noticed",
        "settings/configuration.py",
        "            file.read()\n",
        "            file.current()\n",
        "settings/test_watcher.py",
    ),
    Mutation(
        "a list for another mode is left out",
        "settings/precedence.py",
        "        return known or None\n",
        "        return ids\n",
        "settings/test_configuration.py",
    ),
    Mutation(
        "a key of our own comes before claude-mem's",
        "settings/precedence.py",
        "        found = found or self.layers.find(key)\n",
        "        found = self.layers.find(key) or found\n",
        "settings/test_configuration.py",
    ),
    Mutation(
        "a request checks each path once",
        "dependencies.py",
        "token = _of_request.set({})",
        "token = _of_request.set(None)",
        "test_memo.py",
    ),
    Mutation(
        "what thousands of worktrees name is remembered",
        "pipeline.py",
        "MAX_STEPS_WEIGHT: Final = 32 * 1024 * 1024",
        "MAX_STEPS_WEIGHT: Final = 1024 * 1024",
        "test_memo.py",
    ),
    Mutation(
        "a link of a worktree is read again when it changed",
        "repository/worktrees.py",
        "if link is None or not link.state.holds():",
        "if link is None:",
        "repository/test_many.py",
    ),
    Mutation(
        "a folder that another repository took is no worktree of ours",
        "repository/resolver.py",
        "if link.marker is not None and link.marker.holds()",
        "if True",
        "repository/test_many.py",
    ),
)


def main() -> int:
    missed = 0
    whole: dict[str, bool] = {}
    print("| rule broken | file | noticed by |\n|---|---|---|")
    for one in MUTATIONS:
        if one.tests not in whole:
            whole[one.tests] = passes(one.file, one.old, one.old, one.tests)
        noticed = whole[one.tests] and not passes(one.file, one.old, one.new, one.tests)
        missed += not noticed
        by = f"`{one.tests}`" if noticed else "NOTHING" if whole[one.tests] else "FAILS UNBROKEN"
        print(f"| {one.rule} | `{one.file}` | {by} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
