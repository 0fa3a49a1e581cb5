"""What a user marked as private is not shown, wherever a store or a transcript has it. Pure."""

from __future__ import annotations

import re
from typing import Final

_TAG: Final = re.compile(
    # Also with attributes, and as an observer that escapes what it quotes writes it.
    r"(?:<|&lt;)\s*(/?)\s*private(?:\s[^<>&]*)?(?:>|&gt;)",
    re.IGNORECASE,
)


def without_private(text: str) -> str:
    """`text` without its `<private>...</private>` spans; an open one reaches to the end, nested ones
    end with the outermost."""
    return _outside(text, 0)[0]


def list_without_private(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The same for the members of a list, where a span may begin in one and end in another; a member
    that had nothing else is none."""
    if not any("<" in text or "&" in text for text in texts):
        return texts
    left: list[str] = []
    depth = 0
    for text in texts:
        hidden = depth
        shown, depth = _outside(text, depth)
        if shown.strip() or (shown == text and not hidden):
            left.append(shown)
    return tuple(left)


def _outside(text: str, depth: int) -> tuple[str, int]:
    """What is in no span where `depth` are open at the start; and how many are at the end."""
    if "<" not in text and "&" not in text:
        return ("" if depth else text), depth
    parts: list[str] = []
    start = 0
    for tag in _TAG.finditer(text):
        if depth == 0:
            parts.append(text[start : tag.start()])
        depth = max(0, depth - 1) if tag[1] else depth + 1
        start = tag.end()
    return "".join(parts) + (text[start:] if depth == 0 else ""), depth
