"""What a user marked as private is not shown, wherever a store or a transcript has it. Pure."""

from __future__ import annotations

import re
from typing import Final

_TAG: Final = re.compile(r"<\s*(/?)\s*private\s*>", re.IGNORECASE)


def without_private(text: str) -> str:
    """`text` without its `<private>...</private>` spans; an open one reaches to the end, nested ones
    end with the outermost."""
    if "<" not in text or _TAG.search(text) is None:
        return text
    parts: list[str] = []
    depth = start = 0
    for tag in _TAG.finditer(text):
        if depth == 0:
            parts.append(text[start : tag.start()])
        depth = max(0, depth - 1) if tag[1] else depth + 1
        start = tag.end()
    return "".join(parts) + (text[start:] if depth == 0 else "")
