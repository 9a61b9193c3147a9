"""Plots as SVG text. Colours come from the page's style sheet, so they follow light and dark."""

import html
import math

from stats import median, number

WIDTH, LEFT, RIGHT, ROW, TOP = 860, 230, 70, 22, 46


def _text(x, y, words, kind="", anchor="start"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">'
        f"{html.escape(str(words))}</text>"
    )


class Axis:
    """From values to pixels. Logarithmic where the values span more than a factor of 30."""

    def __init__(self, values):
        values = [value for value in values if value > 0] or [1]
        least, most = min(values), max(values)
        self.log = most / least > 30
        if self.log:
            self.low, self.high = math.floor(math.log10(least)), math.ceil(math.log10(most))
            self.high += self.high == self.low
        else:
            self.low, self.high = 0, most * 1.05

    def at(self, value):
        if self.log:
            value = math.log10(value) if value > 0 else self.low
        share = (value - self.low) / (self.high - self.low)
        return LEFT + max(0, min(1, share)) * (WIDTH - LEFT - RIGHT)

    def ticks(self):
        if self.log:
            return [10.0**power for power in range(self.low, self.high + 1)]
        step = 10 ** math.floor(math.log10(self.high))
        while self.high / step < 4:
            step /= 2
        return [step * count for count in range(int(self.high / step) + 1)]


def _frame(title, axis, rows):
    height = TOP + ROW * rows + 26
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(title)}">',
        _text(0, 16, title + (" (logarithmic)" if axis.log else ""), "title"),
    ]
    for value in axis.ticks():
        x = axis.at(value)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{height - 20}" class="grid"/>')
        parts.append(_text(x, height - 6, number(value), "tick", "middle"))
    return parts


def _kind(label):
    """The colour of a row: by who does it."""
    for part, kind in (("weft, inline", "inline"), ("weft", "weft"), ("no coding", "plain")):
        if part in label:
            return kind
    return "peer"


def bars(title, marks):
    """A bar for the median of each row, with a line from the least to the greatest."""
    axis = Axis([value for _, values in marks for value in values])
    parts = _frame(title, axis, len(marks))
    for row, (label, values) in enumerate(marks):
        y, middle = TOP + ROW * row, median(values)
        x = axis.at(middle)
        parts.append(_text(LEFT - 8, y + 12, label, "label", "end"))
        parts.append(
            f'<rect x="{LEFT}" y="{y}" width="{max(1, x - LEFT):.1f}" height="15" '
            f'class="{_kind(label)}"/>'
        )
        least, most = axis.at(min(values)), axis.at(max(values))
        if most - least > 1:
            parts.append(
                f'<line x1="{least:.1f}" x2="{most:.1f}" y1="{y + 7.5}" y2="{y + 7.5}" '
                'class="whisker"/>'
            )
        parts.append(_text(max(x, most) + 5, y + 12, number(middle), "value"))
    return "\n".join([*parts, "</svg>"])


def dots(title, names, marks):
    """Some figures of each row on one line, from pale to full."""
    axis = Axis([value for _, values in marks for value in values])
    parts = _frame(title, axis, len(marks))
    for place, name in enumerate(names):
        x = LEFT + place * 90
        parts.append(
            f'<circle cx="{x}" cy="{TOP - 20}" r="5" class="plain" '
            f'opacity="{_opacity(place, names)}"/>'
        )
        parts.append(_text(x + 9, TOP - 16, name, "tick"))
    for row, (label, values) in enumerate(marks):
        y = TOP + ROW * row + 8
        kind = _kind(label)
        parts.append(_text(LEFT - 8, y + 4, label, "label", "end"))
        first, last = axis.at(values[0]), axis.at(values[-1])
        parts.append(
            f'<line x1="{first:.1f}" x2="{last:.1f}" y1="{y}" y2="{y}" class="whisker"/>'
        )
        for place, value in enumerate(values):
            parts.append(
                f'<circle cx="{axis.at(value):.1f}" cy="{y}" r="5" class="{kind}" '
                f'opacity="{_opacity(place, names)}"><title>{html.escape(names[place])} '
                f"{number(value)}</title></circle>"
            )
        parts.append(_text(last + 9, y + 4, number(values[-1]), "value"))
    return "\n".join([*parts, "</svg>"])


def _opacity(place, names):
    return f"{0.35 + 0.65 * place / max(1, len(names) - 1):.2f}"
