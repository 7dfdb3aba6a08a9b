# SPDX-License-Identifier: Apache-2.0
"""How numbers are rounded: once, here, for notebook, terminal and report alike."""

from __future__ import annotations

import math

from epsilens.document import WhatIfDocument, epsilon_text

__all__ = [
    "MINUS",
    "NOTHING",
    "change_decimals",
    "format_auc",
    "format_auc_change",
    "format_change",
    "format_count",
    "format_epsilon",
    "format_loss",
    "format_percent",
    "format_points",
    "format_seconds",
    "loss_decimals",
    "rounds_to_zero",
]

MINUS = "−"
NOTHING = "–"


def format_epsilon(epsilon: float | None) -> str:
    """Round a privacy budget to three significant digits; infinity is ∞, and none is a dash.

    Examples
    --------
    >>> [format_epsilon(value) for value in (3.16227, float("inf"), None)]
    ['3.16', '∞', '–']
    """
    return NOTHING if epsilon is None else epsilon_text(epsilon)


def change_decimals(document: WhatIfDocument) -> int:
    """Say how many decimals the losses of a document have.

    The last digit shown is about a ten-thousandth of the loss before anything is randomised, so
    that a loss of 0.54 and its changes have four decimals and one of 5,000 has none.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfDocument
    >>> start = Baseline(loss=0.54, accuracy=0.7, auc=0.7, n_train=9, n_test=9, n_parameters=2)
    >>> change_decimals(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                                cells=[]))
    4
    """
    return loss_decimals(document.baseline.loss)


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


def format_loss(value: float | None, *, decimals: int = 4) -> str:
    """Write a loss without a sign for plus.

    Examples
    --------
    >>> format_loss(0.54321, decimals=4), format_loss(5300.2, decimals=0)
    ('0.5432', '5,300')
    """
    return _signed(value, decimals=decimals, plus="")


def format_change(value: float | None, *, decimals: int = 4) -> str:
    """Write a change of the loss with its sign; a change too small to show has none.

    Examples
    --------
    >>> [format_change(value, decimals=4) for value in (0.0214, -0.0002, 0.00001, None)]
    ['+0.0214', '−0.0002', '0.0000', '–']
    """
    return _signed(value, decimals=decimals, plus="+")


def format_points(share: float | None, *, signed: bool = True) -> str:
    """Write a change of a share in percentage points, one decimal.

    Examples
    --------
    >>> format_points(-0.0134), format_points(-0.0134, signed=False)
    ('−1.3', '1.3')
    """
    if share is None:
        return NOTHING
    return _signed(100 * (share if signed else abs(share)), decimals=1, plus="+" if signed else "")


def format_percent(share: float | None) -> str:
    """Write a share in per cent, one decimal.

    Examples
    --------
    >>> format_percent(0.7236)
    '72.4%'
    """
    return NOTHING if share is None else f"{100 * share:.1f}%"


def format_auc(value: float | None) -> str:
    """Write an area under the ROC curve, three decimals.

    Examples
    --------
    >>> format_auc(0.75123)
    '0.751'
    """
    return _signed(value, decimals=3, plus="")


def format_auc_change(value: float | None) -> str:
    """Write a change of the area under the ROC curve, three decimals with sign.

    Examples
    --------
    >>> format_auc_change(-0.0123)
    '−0.012'
    """
    return _signed(value, decimals=3, plus="+")


def format_count(value: int) -> str:
    """Write a count with a comma between thousands.

    Examples
    --------
    >>> format_count(6366)
    '6,366'
    """
    return f"{value:,}"


def format_seconds(value: float | None) -> str:
    """Write a duration in seconds, one decimal below a hundred.

    Examples
    --------
    >>> format_seconds(1.84), format_seconds(250.2)
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
