"""Leaves out what a user marked as private in a store or a transcript. Pure."""

from __future__ import annotations

import re
from typing import Final

_TAG: Final = re.compile(
    # Also with attributes, and escaped, as an observer may quote it.
    r"(?:<|&lt;)\s*(/?)\s*private(?:\s[^<>&]*)?(?:>|&gt;)",
    re.IGNORECASE,
)


def without_private(text: str) -> str:
    """`text` without its `<private>...</private>` spans. A span without an end reaches to the end of
    the text; nested spans end with the outermost."""
    return _outside(text, 0)[0]


def list_without_private(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The same for a list, where a span may begin in one member and end in another. Members of which
    nothing is left are left out."""
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
    """The text outside spans, where `depth` of them are open at the start; and how many are open at
    the end."""
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
