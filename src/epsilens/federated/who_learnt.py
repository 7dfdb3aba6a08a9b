# SPDX-License-Identifier: Apache-2.0
"""Who learnt what in a valuation between parties: five short lines, for thirty seconds."""

from __future__ import annotations

from epsilens.federated.valuing import Valuation
from epsilens.valuation.yardstick import n_coefficients

__all__ = ["who_learnt"]


def who_learnt(valuation: Valuation) -> list[str]:
    """Say in at most five short lines what each party knows after a valuation that it did not know before.

    Parameters
    ----------
    valuation : Valuation

    Returns
    -------
    list of str

    Examples
    --------
    >>> import numpy as np
    >>> found = Valuation(provider=1, tester=3, mode="items", change="add", scores=np.zeros(4),
    ...     resolution=1e-9, n_items=4, version=0, n_parameters=12, messages=6, bytes=2_000_000,
    ...     seconds=1.5)
    >>> for line in who_learnt(found):
    ...     print(line)
    Site 1, the provider: the model and its inverse Hessian; nothing of site 3's records.
    Site 3, the tester: 4 scores, one a record; no record.
    The coordinator: the same 4 scores; what it carried it cannot open.
    Provider and coordinator together: 4 equations about the 90 numbers behind site 3's scores.
    No more ε is spent: all was computed from drawn records. Not proven: docs/private-valuation.md.
    """
    a, b, p = valuation.provider, valuation.tester, valuation.n_parameters
    lines = [
        f"Site {a}, the provider: the model and its inverse Hessian; nothing of site {b}'s records."
    ]
    lines += _of_batch(valuation) if valuation.mode == "batch" else _of_items(valuation)
    if valuation.mode == "items" and valuation.n_items >= p:
        lines[-1] += f" Unsafe: {p} give away the gradient."
    lines.append(
        "No more ε is spent: all was computed from drawn records. Not proven: docs/private-valuation.md."
    )
    return lines


def _of_items(valuation: Valuation) -> list[str]:
    n, b = valuation.n_items, valuation.tester
    accepted = "" if valuation.accepted is None else f" {_sums(valuation)}"
    return [
        f"Site {b}, the tester: {n} scores, one a record; no record.",
        f"The coordinator: the same {n} scores; what it carried it cannot open.{accepted}",
        f"Provider and coordinator together: {n} equations about the "
        f"{n_coefficients(valuation.n_parameters):,} numbers behind site {b}'s scores.",
    ]


def _of_batch(valuation: Valuation) -> list[str]:
    a, b, p = valuation.provider, valuation.tester, valuation.n_parameters
    accepted = "" if valuation.accepted is None else f" {_sums(valuation)}"
    return [
        f"Site {b}, the tester: how the model would move, {p} numbers, and one score; no record.",
        f"The coordinator: that score, and {p} sums over site {a}'s records.{accepted}",
        "That is weak: sums can determine records of few possible values. Use items.",
    ]


def _sums(valuation: Valuation) -> str:
    return f"Accepted: also the gradient and Hessian of site {valuation.provider}'s offer."
