"""JSON text with a few values changed, and every other byte as somebody wrote it. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from claudemem_daemon.hookfiles.comments import blanked, comments, without_comma

_SPACE: Final = " \t\r\n"
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class _Node:
    """A value and where its text is; a container's parts, each with where its key starts."""

    value: Any
    start: int
    end: int
    parts: tuple[_Part, ...] = ()


@dataclass(frozen=True, slots=True)
class _Part:
    key: str | None
    start: int
    node: _Node


def splice(
    text: str, wanted: Any, unit: str, *, ascii_only: bool, with_comments: bool = False
) -> str | None:
    """`text` changed so that it says `wanted`, with all its comments; None where that cannot be
    done by small changes.

    `text` is valid JSON but for comments, `unit` its indentation by one level.
    """
    plain = blanked(text) if with_comments else text
    root = _read(plain, _skip(plain, 0))
    editor = _Editor(text, plain, unit, ascii_only)
    fresh = text[: root.start] + editor.render(root, wanted) + text[root.end :]
    if with_comments and sorted(comments(fresh)) != sorted(comments(text)):
        return None
    try:
        return (
            fresh if _same(json.loads(blanked(fresh) if with_comments else fresh), wanted) else None
        )
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class _Editor:
    text: str
    plain: str
    """`text` with spaces for its comments."""
    unit: str
    ascii_only: bool

    def render(self, node: _Node, wanted: Any) -> str:
        if _same(node.value, wanted):
            return self.text[node.start : node.end]
        if isinstance(wanted, dict) and isinstance(node.value, dict):
            known = {part.key: part for part in node.parts}
            staying = [
                (known[key], self._member(known[key], value))
                for key, value in wanted.items()
                if key in known
            ]
            new = [
                self._key(key, node) + self._fresh(value, self._inside(node))
                for key, value in wanted.items()
                if key not in known
            ]
            return self._joined(node, staying, new)
        if isinstance(wanted, list) and isinstance(node.value, list):
            pairs, rest = _paired(node, wanted)
            return self._joined(
                node,
                [(part, self.render(part.node, value)) for part, value in pairs],
                [self._fresh(value, self._inside(node)) for value in rest],
            )
        return self._fresh(wanted, self._indent(node.start))

    def _member(self, part: _Part, wanted: Any) -> str:
        return self.text[part.start : part.node.start] + self.render(part.node, wanted)

    def _joined(self, node: _Node, staying: list[tuple[_Part, str]], new: list[str]) -> str:
        """The container again: the parts that stay behind what separated them, new ones at the
        end in the same manner."""
        opening, closing = self.text[node.start], self.text[node.end - 1]
        inside = slice(node.start + 1, node.end - 1)
        if self.text[inside] != self.plain[inside]:
            return opening + self._joined_with_comments(node, staying, new) + closing
        if not staying and not new:
            return opening + closing
        before, after = self._edges(node)
        between = [
            self.text[left.node.end : right.start]
            for left, right in zip(node.parts, node.parts[1:], strict=False)
        ]
        before_of = dict(zip((part.start for part in node.parts[1:]), between, strict=True))
        usual = between[-1] if between else "," + (before or (" " if self._spaced else ""))
        made = opening + before
        for number, (part, text) in enumerate(staying):
            made += (before_of.get(part.start, usual) if number else "") + text
        for number, text in enumerate(new, start=len(staying)):
            made += (usual if number else "") + text
        return made + after + closing

    def _joined_with_comments(
        self, node: _Node, staying: list[tuple[_Part, str]], new: list[str]
    ) -> str:
        """The same, between the brackets: a comment stays behind what it stood behind, and those in
        and around what went stand in its place, a line each."""
        line = self._new_line(node)
        texts = {part.start: text for part, text in staying}
        made, comma, end = "", "", node.start + 1
        left: list[str] = []
        for part in node.parts:
            gap, end = self.text[end : part.start], part.node.end
            if part.start not in texts:
                left += comments(gap + self.text[part.start : end])
                continue
            made += comma + _lines(left, line, without_comma(gap)) if left or not comma else gap
            made += texts[part.start]
            comma, left = ",", []
        last = self.text[end : node.end - 1]
        cut = len(last.rstrip(_SPACE)) if comments(last) else 0
        if new:
            made += comma + _lines(left, line, last[:cut])
            return made + line + ("," + line).join(new) + last[cut:]
        return made + _lines(left, line, last)

    def _new_line(self, node: _Node) -> str:
        """What a part of a container starts with on a line of its own."""
        if self._line is None:
            return " "
        return self._line + (self._inside(node) or self._indent(node.start) + self.unit)

    def _edges(self, node: _Node) -> tuple[str, str]:
        """White space behind the opening bracket and before the closing one."""
        if node.parts:
            return (
                self.plain[node.start + 1 : node.parts[0].start],
                self.plain[node.parts[-1].node.end : node.end - 1],
            )
        if self._line is None:
            return "", ""
        here = self._indent(node.start)
        return self._line + here + self.unit, self._line + here

    def _inside(self, node: _Node) -> str | None:
        """The indentation of a container's parts; None where they stand in one line."""
        before, _ = self._edges(node)
        return before.rpartition("\n")[2] if "\n" in before else None

    def _fresh(self, value: Any, indent: str | None) -> str:
        """A value that was not there before, at an indentation or all in one line."""
        if indent is None or self._line is None:
            marks = (", ", ": ") if self._spaced else (",", ":")
            return json.dumps(value, ensure_ascii=self.ascii_only, separators=marks)
        made = json.dumps(value, ensure_ascii=self.ascii_only, indent=self.unit)
        return made.replace("\n", self._line + indent)

    def _key(self, key: str, node: _Node) -> str:
        colon = ": " if self._spaced or self._inside(node) is not None else ":"
        return json.dumps(key, ensure_ascii=self.ascii_only) + colon

    def _indent(self, at: int) -> str:
        """The white space that the line of this place starts with."""
        line = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]

    @property
    def _line(self) -> str | None:
        """How lines end; None for a text that is one line."""
        if "\n" not in self.text.strip():
            return None
        return "\r\n" if "\r\n" in self.text else "\n"

    @property
    def _spaced(self) -> bool:
        return '": ' in self.text


def _lines(left: list[str], line: str, rest: str) -> str:
    """Comments on lines of their own, and what comes behind them on the next."""
    if not left:
        return rest
    space = rest[: len(rest) - len(rest.lstrip(_SPACE))]
    # Spaces behind a comment that ends with the line would be its own.
    behind = rest.lstrip(" \t") if "\n" in space else line + rest
    return "".join(line + comment for comment in left) + behind


def _paired(node: _Node, wanted: list[Any]) -> tuple[list[tuple[_Part, Any]], list[Any]]:
    """Which item of a list became which; items that went are passed over, new ones come last."""
    pairs: list[tuple[_Part, Any]] = []
    left = list(wanted)
    for number, part in enumerate(node.parts):
        if not left:
            break
        if _same(part.node.value, left[0]) or len(node.parts) - number <= len(left):
            pairs.append((part, left.pop(0)))
    return pairs, left


def _read(text: str, start: int) -> _Node:
    if text[start] not in "{[":
        value, end = _DECODER.raw_decode(text, start)
        return _Node(value, start, end)
    parts: list[_Part] = []
    at = _skip(text, start + 1)
    while text[at] not in "}]":
        begun = at
        key = None
        if text[start] == "{":
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        node = _read(text, at)
        parts.append(_Part(key, begun, node))
        at = _skip(text, node.end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    value = (
        {str(part.key): part.node.value for part in parts}
        if text[start] == "{"
        else [part.node.value for part in parts]
    )
    return _Node(value, start, at + 1, tuple(parts))


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _same(value: Any, other: Any) -> bool:
    """Equal, in the same order, and of the same types: 1, 1.0 and true are three values."""
    return json.dumps(value) == json.dumps(other)
