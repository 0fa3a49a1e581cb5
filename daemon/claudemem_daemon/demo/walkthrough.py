"""The demo's five steps: each asks a real hook, shows the answer, and checks what it proves."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from claudemem_daemon.demo.sandbox import Sandbox

PrintLine = Callable[[str], None]


class Walkthrough:
    """Runs the steps and counts what was not as said."""

    def __init__(self, sandbox: Sandbox, say: PrintLine, bold: Callable[[str], str]) -> None:
        self._sandbox = sandbox
        self._say = say
        self._bold = bold
        self.failed = 0

    def run(self, program: str) -> int:
        """All steps; returns how many claims did not hold. `program` starts this command again, as
        a shell takes it."""
        sandbox, began = self._sandbox, time.monotonic()
        sandbox.repository("shop-cart", "shop-search", "shop-old")
        sandbox.row("shop", "decision", "Prices are integers of cents")
        sandbox.row("shop/shop-old", "bugfix", "Old checkout lost the coupon")
        sandbox.row("shop-search", "discovery", "Search index is rebuilt at night")
        sandbox.row("shop/shop-cart", "feature", "Cart survives a login")
        started = sandbox.start_daemon()
        self._say(f"a repository, three worktrees, one claude-mem store; daemon {started}")
        for step in (self._together, self._removed, self._live, self._news, self._why):
            step()
        verdict = "all as said" if not self.failed else f"{self.failed} claims did not hold"
        self._step(f"{verdict}, in {time.monotonic() - began:.1f} s. Cleaned up.")
        if not self.failed:
            self._say("To use it:")
            self._say(f"  {program} service install")
            self._say(f"  {program} hooks install claude-code")
        return self.failed

    def _together(self) -> None:
        self._step("1. A new session in worktree shop-cart sees the whole repository's memory")
        context = self._shown("shop-cart", "SessionStart", "cart-session")
        self._claim(
            "rows of the main checkout, of itself and of both siblings, newest first",
            all(row in context for row in ("cents", "login", "night", "coupon"))
            and context.index("login") < context.index("night") < context.index("cents"),
        )
        self._claim(
            "the older naming of a worktree's rows is found too", "[shop-search]" in context
        )

    def _removed(self) -> None:
        self._step("2. git worktree remove shop-old: its history stays")
        self._sandbox.git("worktree", "remove", self._sandbox.path("shop-old"))
        context = self._shown("shop-search", "SessionStart", "search-session")
        self._claim("the removed worktree's row is still there", "coupon" in context)

    def _live(self) -> None:
        self._step("3. settings.json changes while it runs: only bug fixes, please")
        self._sandbox.settings({"CLAUDE_MEM_CONTEXT_OBSERVATION_TYPES": "bugfix"})
        context = self._shown("shop-cart", "SessionStart", "third-session")
        self._claim(
            "the next answer has bug fixes alone, no restart",
            "coupon" in context and "login" not in context,
        )
        self._sandbox.settings({})

    def _news(self) -> None:
        self._step("4. An agent in shop-search learns something while shop-cart is at work")
        answer = self._sandbox.hook("shop-cart", "UserPromptSubmit", "cart-session")
        self._claim("a prompt with no news gets nothing at all", answer == "")
        self._sandbox.row("shop/shop-search", "discovery", "Search wants prices in cents", "search")
        context = self._shown("shop-cart", "UserPromptSubmit", "cart-session")
        self._claim(
            "the next prompt gets the news, and the news alone",
            "Search wants" in context and "login" not in context,
        )

    def _why(self) -> None:
        self._step("5. Why is a row there, or not?")
        done = self._sandbox.command(
            "explain", "--types", "bugfix", "4", "--json", cwd=self._sandbox.main
        )
        fate = json.loads(done.stdout)["observation"][0]
        self._say(f"   explain --types bugfix 4: {fate['disposition']}: {fate['detail']}")
        self._claim("every row's fate has a name", fate["disposition"] == "type_filtered")

    def _step(self, title: str) -> None:
        self._say("")
        self._say(self._bold(title))

    def _shown(self, worktree: str, event: str, session: str) -> str:
        context = self._sandbox.hook(worktree, event, session)
        for line in context.splitlines():
            if line[:1].isdigit():
                self._say(f"   | {line}")
        return context

    def _claim(self, claim: str, holds: bool) -> None:
        self._say(f"   {'ok' if holds else 'NOT SO'}: {claim}")
        self.failed += not holds
