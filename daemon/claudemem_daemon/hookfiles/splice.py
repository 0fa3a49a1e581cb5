"""JSON text with a few values changed, and every other byte as somebody wrote it. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

_DECODER: Final = json.JSONDecoder()
_STRING_OR_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_NO_BREAK: Final = re.compile(r"[^\r\n]")
_BETWEEN: Final = re.compile(r"[ \t\r\n,:]*")


def blanked(text: str) -> str:
    """`text` with spaces for its comments, so that every value stays where it is."""
    return _STRING_OR_COMMENT.sub(
        lambda found: found[0] if found[0][0] == '"' else _NO_BREAK.sub(" ", found[0]), text
    )


def comments(text: str) -> list[str]:
    return [found[0] for found in _STRING_OR_COMMENT.finditer(text) if found[0][0] == "/"]


def indentation(text: str) -> str:
    """The indentation of the second line, which is that of one level."""
    second = next((line for line in text.splitlines()[1:] if line.strip() not in ("", "}")), "")
    return _leading_space(second)


def splice(text: str, wanted: Any) -> str | None:
    """`text` changed so that it says `wanted`, with all its comments; None where that cannot be
    done by small changes, as where keys change their order.

    `text` is valid JSON but for comments.
    """
    plain = blanked(text)
    root = _read(plain, _after_space(plain, 0))
    lines = "\n" in text.strip()
    editor = _Editor(
        text,
        unit=indentation(text) or "  ",
        line=("\r\n" if "\r\n" in text else "\n") if lines else "",
        space=" " if '": ' in text else "",
    )
    fresh = text[: root.at] + editor.changed(root, wanted) + text[root.end :]
    try:
        right = _same(json.loads(blanked(fresh)), wanted)
    except ValueError:
        right = False
    return fresh if right and sorted(comments(fresh)) == sorted(comments(text)) else None


@dataclass(frozen=True, slots=True)
class _Node:
    """A value and where its text is, from `at` to `end`; in an object, where its `key` starts. A
    container has `parts`."""

    key: str | None
    start: int
    at: int
    end: int
    value: Any
    parts: tuple[_Node, ...] = ()


@dataclass(frozen=True, slots=True)
class _Editor:
    """`line` is how lines end, empty for a text that is one line. `space` is what comes after a
    colon, or a comma, in one line."""

    text: str
    unit: str
    line: str
    space: str

    def changed(self, node: _Node, wanted: Any) -> str:
        """The text of a value that becomes `wanted`."""
        if _same(node.value, wanted):
            return self.text[node.at : node.end]
        if isinstance(wanted, dict) and isinstance(node.value, dict):
            known = {part.key for part in node.parts}
            pairs = [(part, wanted[part.key]) for part in node.parts if part.key in wanted]
            new = [(key, value) for key, value in wanted.items() if key not in known]
            return self._container(node, pairs, new)
        if isinstance(wanted, list) and isinstance(node.value, list):
            pairs, rest = _paired(node, wanted)
            return self._container(node, pairs, [(None, value) for value in rest])
        return self._written(None, wanted, self.line + self._indentation(node.at))

    def _container(
        self, node: _Node, pairs: list[tuple[_Node, Any]], new: list[tuple[str | None, Any]]
    ) -> str:
        """The container with those of its parts that stay, and new ones at the end in the same
        manner. A comment stays after what it came after; those in and around a part that goes take
        its place, a line each."""
        texts = {
            part.start: self.text[part.start : part.at] + self.changed(part, value)
            for part, value in pairs
        }
        lines, own_line = self._layout(node)
        made, comma, end = self.text[node.at], "", node.at + 1
        orphans: list[str] = []
        for part in node.parts:
            gap, end = self.text[end : part.start], part.end
            if part.start not in texts:
                orphans += comments(gap + self.text[part.start : end])
                continue
            if orphans or not comma:
                gap = _on_lines(orphans, own_line, _without_comma(gap))
            made += (comma if orphans else "") + gap + texts[part.start]
            comma, orphans = ",", []
        after = self.text[end : node.end - 1]
        if new:
            tail = after.rstrip()
            wide = lines or bool(orphans or tail)
            between = own_line if wide else self.space
            made += comma + _on_lines(orphans, own_line, tail) + (between if comma or wide else "")
            start = own_line if lines else ""
            made += ("," + between).join(self._written(key, value, start) for key, value in new)
            closing = self.line + self._indentation(node.at)
            after = after[len(tail) :] if node.parts or tail else closing if lines else ""
        elif comma or orphans or after.strip():
            after = _on_lines(orphans, own_line, after)
        else:
            after = ""
        return made + after + self.text[node.end - 1]

    def _layout(self, node: _Node) -> tuple[bool, str]:
        """Whether a container has a line for each part, and what such a line starts with."""
        own_line = self.line + self._indentation(node.at) + self.unit
        if not node.parts:
            return bool(self.line), own_line
        before = self.text[node.at + 1 : node.parts[0].start]
        if "\n" not in before:
            return False, own_line
        return True, self.line + _leading_space(before.rpartition("\n")[2])

    def _written(self, key: str | None, value: Any, start: str) -> str:
        """A value that was not there before: its lines start with `start`, or it is one line."""
        lines = "\n" in start
        marks = ("," if lines else f",{self.space}", ": " if lines else f":{self.space}")
        # An ASCII text stays one.
        indent, ascii_only = self.unit if lines else None, self.text.isascii()
        written = json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=marks)
        name = "" if key is None else json.dumps(key, ensure_ascii=ascii_only) + marks[1]
        return name + written.replace("\n", start)

    def _indentation(self, at: int) -> str:
        """The white space that the line of this place starts with."""
        return _leading_space(self.text[self.text.rfind("\n", 0, at) + 1 : at])


def _on_lines(orphans: list[str], own_line: str, rest: str) -> str:
    """Comments on lines of their own, and what comes after them on the next."""
    if not orphans:
        return rest
    space = rest[: len(rest) - len(rest.lstrip())]
    # Spaces after a comment that ends with the line would be its own.
    rest = rest.lstrip(" \t") if "\n" in space else own_line + rest
    return "".join(own_line + comment for comment in orphans) + rest


def _without_comma(gap: str) -> str:
    at = blanked(gap).find(",")
    return gap if at < 0 else gap[:at] + gap[at + 1 :]


def _leading_space(text: str) -> str:
    return text[: len(text) - len(text.lstrip(" \t"))]


def _paired(node: _Node, wanted: list[Any]) -> tuple[list[tuple[_Node, Any]], list[Any]]:
    """Which item of a list became which; items that went are passed over, new ones come last."""
    pairs: list[tuple[_Node, Any]] = []
    left = list(wanted)
    for number, part in enumerate(node.parts):
        if left and (_same(part.value, left[0]) or len(node.parts) - number <= len(left)):
            pairs.append((part, left.pop(0)))
    return pairs, left


def _read(text: str, at: int, key: str | None = None, start: int | None = None) -> _Node:
    start = at if start is None else start
    if text[at] not in "{[":
        value, end = _DECODER.raw_decode(text, at)
        return _Node(key, start, at, end, value)
    parts: list[_Node] = []
    next_at = _after_space(text, at + 1)
    while text[next_at] not in "}]":
        part_start, name = next_at, None
        if text[at] == "{":
            name, end = _DECODER.raw_decode(text, next_at)
            next_at = _after_space(text, end)
        parts.append(_read(text, next_at, name, part_start))
        next_at = _after_space(text, parts[-1].end)
    value = (
        {part.key: part.value for part in parts}
        if text[at] == "{"
        else [part.value for part in parts]
    )
    return _Node(key, start, at, next_at + 1, value, tuple(parts))


def _after_space(text: str, at: int) -> int:
    """The next place that is no white space, comma or colon."""
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _same(value: Any, other: Any) -> bool:
    """Equal, in the same order, and of the same types: 1, 1.0 and true are three values."""
    return json.dumps(value) == json.dumps(other)
