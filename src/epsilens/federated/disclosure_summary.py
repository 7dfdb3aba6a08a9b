# SPDX-License-Identifier: Apache-2.0
"""Who learnt what in a valuation between parties: five short lines, for thirty seconds."""

from __future__ import annotations

from epsilens.federated.valuing import Valuation
from epsilens.valuation.derivatives import n_coefficients


def disclosure_summary(valuation: Valuation) -> list[str]:
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
    >>> for line in disclosure_summary(found):
    ...     print(line)
    Site 1, provider: the model and its inverse Hessian; nothing of site 3.
    Site 3, tester: 4 scores, one a record; no record.
    Coordinator: the same 4 scores; what it carried it cannot open.
    Provider and coordinator: 4 equations about 90 numbers of site 3.
    Tester and coordinator: drawn records of few possible values. No ε is spent.
    """
    a, b = valuation.provider, valuation.tester
    first = f"Site {a}, provider: the model and its inverse Hessian; nothing of site {b}."
    return [first, *(_of_batch if valuation.mode == "batch" else _of_items)(valuation)]


def _of_items(valuation: Valuation) -> list[str]:
    n, b, p = valuation.n_items, valuation.tester, valuation.n_parameters
    carried = "what it carried it cannot open."
    if valuation.accepted is not None:
        carried = "of what was accepted, gradient and Hessian."
    unsafe = f"; {p} give its gradient!" if n >= p else "."
    return [
        f"Site {b}, tester: {n} scores, one a record; no record.",
        f"Coordinator: the same {n} scores; {carried}",
        f"Provider and coordinator: {n} equations about {n_coefficients(p):,} numbers of site {b}{unsafe}",
        "Tester and coordinator: drawn records of few possible values. No ε is spent.",
    ]


def _of_batch(valuation: Valuation) -> list[str]:
    a, b, p = valuation.provider, valuation.tester, valuation.n_parameters
    lines = [
        f"Site {b}, tester: how the model would move, {p} numbers, and one score.",
        f"Coordinator: that score and {p} sums over site {a}'s records: weak, use items.",
        "All of it comes from drawn records: no ε is spent.",
    ]
    if valuation.accepted is not None:
        lines.insert(2, "Accepted: the coordinator also has gradient and Hessian of the offer.")
    return lines
