"""Numbers with only the digits that their error allows, and times in words."""

from __future__ import annotations

import math

__all__ = ["duration", "number"]


def number(value: float, stderr: float) -> tuple[str, str]:
    """A value and its standard error as text, to the second digit of the error.

    >>> number(0.01234567, 0.00041999)
    ('0.01235', '0.00042')
    >>> number(-12.34567, 3.2)
    ('-12.3', '3.2')
    >>> number(1234.5, 98.7)
    ('1234', '99')
    >>> number(-123456.7, 4999.0)
    ('-123500', '5000')
    >>> number(0.5, float("nan"))
    ('0.5', '?')
    >>> number(0.5, 0.0)
    ('0.5', '0')
    """
    if not math.isfinite(stderr):
        return f"{value:.2g}", "?"
    if stderr == 0:
        return f"{value:.6g}", "0"
    # The error is rounded first, because 0.0996 is shown as 0.10, with two decimals and not three.
    size = math.floor(math.log10(float(f"{stderr:.1e}")))
    decimals = 1 - size
    shown = (f"{round(x, decimals) + 0.0:.{max(decimals, 0)}f}" for x in (value, stderr))
    return next(shown), next(shown)


def duration(seconds: float) -> str:
    """A time in words, to two digits.

    >>> duration(0.2), duration(42.3), duration(200), duration(9000), duration(400_000)
    ('1 second', '42 seconds', '3.3 minutes', '2.5 hours', '4.6 days')
    """
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}s"
    whole = max(1, round(seconds))
    return f"{whole} second{'s' if whole != 1 else ''}"
