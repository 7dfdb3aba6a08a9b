# SPDX-License-Identifier: Apache-2.0
"""How every number is written: rounded once, here, for every sentence, table and chart.

A number that is not known is a dash. Bounds are rounded so that they still hold.
"""

from __future__ import annotations

import math

MINUS = "−"
NOTHING = "–"
_LONGEST = 1e9
"""Budgets from here on are written with an exponent: nobody reads three hundred digits."""


def bound_text(epsilon: float | None) -> str:
    """Round a lower bound on a privacy budget down, to three significant digits.

    Examples
    --------
    >>> bound_text(1.2399), bound_text(0.0), bound_text(15.99)
    ('1.23', '0', '15.9')
    """
    if epsilon is None:
        return NOTHING
    if epsilon <= 0.0 or not math.isfinite(epsilon):
        return "0" if epsilon <= 0.0 else "∞"
    unit = 10.0 ** (2 - math.floor(math.log10(epsilon)))
    return f"{math.floor(epsilon * unit * (1 + 1e-12)) / unit:.3g}"


def epsilon_text(epsilon: float | None) -> str:
    """Round a privacy budget to three significant digits; infinity is ∞, and none is a dash.

    Examples
    --------
    >>> [epsilon_text(value) for value in (1.0, 3.16227, 1234.5, 1e30, float("inf"), None)]
    ['1', '3.16', '1234', '1.0e+30', '∞', '–']
    """
    if epsilon is None:
        return NOTHING
    if math.isinf(epsilon):
        return "∞"
    if 100 <= epsilon < _LONGEST:
        return f"{epsilon:.0f}"
    text = f"{epsilon:.3g}"
    return text if "e" not in text else f"{epsilon:.1e}"


def delta_text(delta: float) -> str:
    """Write the δ of a privacy claim as it is typed.

    Examples
    --------
    >>> delta_text(1e-6), delta_text(0.05), delta_text(2.5e-12)
    ('1e-6', '0.05', '2.5e-12')
    """
    digits, exponent, power = f"{delta:g}".partition("e")
    return f"{digits}e{int(power)}" if exponent else digits


def at_most_text(share: float | None) -> str:
    """Write a share that nothing exceeds in per cent: one decimal, rounded up.

    Examples
    --------
    >>> at_most_text(0.8291), at_most_text(0.7)
    ('83.0%', '70.0%')
    """
    if share is None:
        return NOTHING
    # What floating point puts above a round number is not rounded up to the next.
    return f"{math.ceil(1000 * share - 1e-9) / 10:.1f}%"


def at_least_text(share: float | None) -> str:
    """Write a share that is reached at least in per cent: one decimal, rounded down.

    Examples
    --------
    >>> at_least_text(0.5739), at_least_text(0.7)
    ('57.3%', '70.0%')
    """
    if share is None:
        return NOTHING
    return f"{math.floor(1000 * share + 1e-9) / 10:.1f}%"


def p_value_text(value: float | None) -> str:
    """Write a p-value, two digits; the smallest are not told apart.

    Examples
    --------
    >>> [p_value_text(value) for value in (0.4, 0.0123, 1e-9, None)]
    ['0.40', '0.012', '< 0.001', '–']
    """
    if value is None:
        return NOTHING
    return "< 0.001" if value < 0.001 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"


def loss_decimals(loss: float | None) -> int:
    """Say how many decimals a loss has: its last digit is about a ten-thousandth of it.

    Examples
    --------
    >>> loss_decimals(0.54), loss_decimals(5300.0), loss_decimals(None)
    (4, 0, 4)
    """
    if loss is None or not math.isfinite(loss) or loss <= 0:
        return 4
    return min(max(3 - math.floor(math.log10(loss)), 0), 10)


def loss_text(value: float | None, *, decimals: int = 4) -> str:
    """Write a loss without a sign for plus.

    Examples
    --------
    >>> loss_text(0.54321, decimals=4), loss_text(5300.2, decimals=0)
    ('0.5432', '5,300')
    """
    return _signed(value, decimals=decimals, plus="")


def change_text(value: float | None, *, decimals: int = 4) -> str:
    """Write a change of the loss with its sign; a change too small to show has none.

    Examples
    --------
    >>> [change_text(value, decimals=4) for value in (0.0214, -0.0002, 0.00001, None)]
    ['+0.0214', '−0.0002', '0.0000', '–']
    """
    return _signed(value, decimals=decimals, plus="+")


def points_text(share: float | None, *, signed: bool = True) -> str:
    """Write a change of a share in percentage points, one decimal.

    Examples
    --------
    >>> points_text(-0.0134), points_text(-0.0134, signed=False)
    ('−1.3', '1.3')
    """
    if share is None:
        return NOTHING
    return _signed(100 * (share if signed else abs(share)), decimals=1, plus="+" if signed else "")


def percent_text(share: float | None) -> str:
    """Write a share in per cent, one decimal.

    Examples
    --------
    >>> percent_text(0.7236)
    '72.4%'
    """
    return NOTHING if share is None else f"{100 * share:.1f}%"


def auc_text(value: float | None) -> str:
    """Write an area under the ROC curve, three decimals.

    Examples
    --------
    >>> auc_text(0.75123)
    '0.751'
    """
    return _signed(value, decimals=3, plus="")


def auc_change_text(value: float | None) -> str:
    """Write a change of the area under the ROC curve, three decimals with sign.

    Examples
    --------
    >>> auc_change_text(-0.0123)
    '−0.012'
    """
    return _signed(value, decimals=3, plus="+")


def count_text(value: int) -> str:
    """Write a count with a comma between thousands.

    Examples
    --------
    >>> count_text(6366)
    '6,366'
    """
    return f"{value:,}"


def seconds_text(value: float | None) -> str:
    """Write a duration in seconds, one decimal below a hundred.

    Examples
    --------
    >>> seconds_text(1.84), seconds_text(250.2)
    ('1.8 s', '250 s')
    """
    if value is None:
        return NOTHING
    return f"{value:.1f} s" if value < 100 else f"{value:,.0f} s"


def rounds_to_zero(value: float, *, decimals: int) -> bool:
    """Say whether a number shows as zero at so many decimals.

    Examples
    --------
    >>> rounds_to_zero(0.00001, decimals=4), rounds_to_zero(0.001, decimals=4)
    (True, False)
    """
    return float(f"{value:.{decimals}f}") == 0.0


def _signed(value: float | None, *, decimals: int, plus: str) -> str:
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return f"{plus}∞" if value > 0 else f"{MINUS}∞"
    if rounds_to_zero(value, decimals=decimals):
        return f"{0:.{decimals}f}"
    sign = plus if value > 0 else MINUS
    return f"{sign}{abs(value):,.{decimals}f}"
