"""A chart of curves as SVG, both axes logarithmic, in colours that both light and dark pages show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

BY_HAND: Final = "SQLite by hand"
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 400, 90, 200, 40, 50
_LABEL_HEIGHT: Final = 16
_GREY: Final = "#7a7a7a"
_COLOURS: Final = {"warm": "#3b82c4", "huge": "#3f9e5f", "": "#d9772b"}
"""By a word in the curve's name; the last is of all others. By hand and ours have one colour."""


@dataclass(frozen=True, slots=True)
class Chart:
    """curves: name -> x -> milliseconds, with the same x for all. name: the file's, without .svg."""

    name: str
    title: str
    x_label: str
    curves: Mapping[str, Mapping[int, float]]
    notes: Sequence[str] = ()

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The same as a table: its head, a row for each x, and how much the last is of the first."""
        yield (self.x_label, *(f"{name}, ms" for name in self.curves))
        places = list(next(iter(self.curves.values())))
        for x in places:
            yield (f"{x:,}", *(f"{curve[x]:,.2f}" for curve in self.curves.values()))
        growth = (curve[places[-1]] / curve[places[0]] for curve in self.curves.values())
        yield (f"x {places[-1] / places[0]:,.0f}", *(f"x {times:,.1f}" for times in growth))

    def svg(self) -> str:
        values = [value for curve in self.curves.values() for value in curve.values()]
        places = list(next(iter(self.curves.values())))
        x_axis = _Axis(places[0], places[-1], _LEFT, _WIDTH - _RIGHT)
        low, high = (10.0 ** rounded for rounded in (
            math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        ))  # fmt: skip
        y_axis = _Axis(low, high, _HEIGHT - _BOTTOM, _TOP)
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        title, x_label = escape(self.title), escape(self.x_label)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        )
        lines = (
            f'{head} font-family="sans-serif" font-size="13" fill="{_GREY}">',
            f"<title>{title}</title>",
            f'<text x="{_LEFT}" y="20" font-size="15">{title}</text>',
            *_grid(x_axis, y_axis),
            f'<text x="{middle}" y="{_HEIGHT - 10}" text-anchor="middle">{x_label}</text>',
            *_lines(self.curves, x_axis, y_axis),
            "</svg>",
        )
        return "\n".join((*lines, ""))


@dataclass(frozen=True, slots=True)
class _Axis:
    """Values from `low` to `high` on the pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def decades(self) -> list[float]:
        exponents = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
        return [10.0**exponent for exponent in exponents]


def _grid(x_axis: _Axis, y_axis: _Axis) -> Iterator[str]:
    line = f'stroke="{_GREY}" stroke-opacity="0.3"'
    for value in x_axis.decades():
        x = x_axis.at(value)
        yield f'<path d="M{x} {y_axis.start}V{y_axis.end}" {line}/>'
        yield f'<text x="{x}" y="{y_axis.start + 18}" text-anchor="middle">{value:,.0f}</text>'
    for value in y_axis.decades():
        y = y_axis.at(value)
        yield f'<path d="M{x_axis.start} {y}H{x_axis.end}" {line}/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{value:,g} ms</text>'


def _lines(
    curves: Mapping[str, Mapping[int, float]], x_axis: _Axis, y_axis: _Axis
) -> Iterator[str]:
    """Each curve with its points, and its name beside its end; names keep off each other."""
    free = float(_TOP)
    by_end = sorted(curves, key=lambda name: y_axis.at(list(curves[name].values())[-1]))
    for name in by_end:
        colour = next(colour for word, colour in _COLOURS.items() if word in name)
        points = [(x_axis.at(x), y_axis.at(value)) for x, value in curves[name].items()]
        path = "L".join(f"{x} {y}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if name.startswith(BY_HAND) else ""
        yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
        yield from (f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in points)
        free = max(free, points[-1][1])
        yield f'<text x="{points[-1][0] + 10}" y="{free + 4}" fill="{colour}">{escape(name)}</text>'
        free += _LABEL_HEIGHT
