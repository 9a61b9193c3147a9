"""Medians, spread, and how figures are written."""

import statistics

median = statistics.median


def spread(values):
    """(median, least, greatest)."""
    return median(values), min(values), max(values)


def number(value):
    """Three digits that matter."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1:
        return f"{value:.2f}"
    return f"{value:.3f}" if size >= 0.01 else f"{value:.2g}"


def with_spread(values, scale=1.0):
    """`12.3 (11.9 to 13.0)`."""
    values = [value * scale for value in values if value is not None]
    if not values:
        return "-"
    middle, least, most = spread(values)
    if len(values) == 1 or least == most:
        return number(middle)
    return f"{number(middle)} ({number(least)} to {number(most)})"


def length(count):
    """Bytes as people say them."""
    for unit, size in (("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"
