"""The demo's five acts: each asks a real hook, shows the answer, and checks what it proves."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from claudemem_daemon.demo.stage import Stage

Say = Callable[[str], None]


class Play:
    """Runs the acts and counts what was not as said."""

    def __init__(self, stage: Stage, say: Say, bold: Callable[[str], str]) -> None:
        self._stage = stage
        self._say = say
        self._bold = bold
        self.failed = 0

    def run(self) -> int:
        """All acts; returns how many claims did not hold."""
        stage, began = self._stage, time.monotonic()
        stage.repository("shop-cart", "shop-search", "shop-old")
        stage.row("shop", "decision", "Prices are integers of cents")
        stage.row("shop/shop-old", "bugfix", "Old checkout lost the coupon")
        stage.row("shop-search", "discovery", "Search index is rebuilt at night")
        stage.row("shop/shop-cart", "feature", "Cart survives a login")
        pid = stage.start_daemon()
        self._say(f"a repository, three worktrees, one claude-mem store; daemon running, pid {pid}")
        self._together()
        self._removed()
        self._live()
        self._news()
        self._why()
        verdict = "all as said" if not self.failed else f"{self.failed} claims did not hold"
        self._say("")
        self._say(self._bold(f"{verdict}, in {time.monotonic() - began:.1f} s. Cleaned up."))
        if not self.failed:
            self._say("next: claudemem-daemon service install; claudemem-daemon hooks install"
                      " claude-code")  # fmt: skip
        return self.failed

    def _together(self) -> None:
        self._act("1. A new session in worktree shop-cart sees the whole repository's memory")
        context = self._stage.hook("shop-cart", "SessionStart", "cart-session")
        self._show(context)
        self._claim(
            "rows of the main checkout, of itself and of both siblings, newest first",
            [row in context for row in ("cents", "login", "night", "coupon")] == [True] * 4
            and context.index("login") < context.index("night") < context.index("cents"),
        )
        self._claim(
            "the older naming of a worktree's rows is found too", "[shop-search]" in context
        )

    def _removed(self) -> None:
        self._act("2. git worktree remove shop-old: its history stays")
        self._stage.git("worktree", "remove", self._stage.path("shop-old"))
        context = self._stage.hook("shop-search", "SessionStart", "search-session")
        self._show(context)
        self._claim("the removed worktree's row is still there", "coupon" in context)

    def _live(self) -> None:
        self._act("3. settings.json changes while it runs: only bug fixes, please")
        self._stage.settings({"CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES": "bugfix"})
        context = self._stage.hook("shop-cart", "SessionStart", "third-session")
        self._show(context)
        self._claim(
            "the next answer has bug fixes alone, no restart",
            "coupon" in context and "login" not in context,
        )
        self._stage.settings({})

    def _news(self) -> None:
        self._act("4. An agent in shop-search learns something while shop-cart is at work")
        quiet = self._stage.hook("shop-cart", "UserPromptSubmit", "cart-session")
        self._claim("a prompt with no news gets nothing at all", quiet == "")
        self._stage.row("shop/shop-search", "discovery", "Search wants prices in cents", "search")
        context = self._stage.hook("shop-cart", "UserPromptSubmit", "cart-session")
        self._show(context)
        self._claim(
            "the next prompt gets the news, and the news alone",
            "Search wants" in context and "login" not in context,
        )

    def _why(self) -> None:
        self._act("5. Why is a row there, or not?")
        asked = self._stage.command(
            "explain", "--types", "bugfix", "4", "--json", cwd=self._stage.main
        )
        fate = json.loads(asked.stdout)["observation"][0]
        self._say(f"   explain --types bugfix 4: {fate['disposition']}: {fate['detail']}")
        self._claim("every row's fate has a name", fate["disposition"] == "type_filtered")

    def _act(self, title: str) -> None:
        self._say("")
        self._say(self._bold(title))

    def _show(self, context: str) -> None:
        for line in context.splitlines():
            self._say(f"   | {line}")

    def _claim(self, claim: str, holds: bool) -> None:
        self._say(f"   {'ok' if holds else 'NOT SO'}: {claim}")
        self.failed += not holds
