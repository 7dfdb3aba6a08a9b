# SPDX-License-Identifier: Apache-2.0
"""A valuation between parties in a few sentences: what came out, and what each of them learnt."""

from __future__ import annotations

from epsilens.document import FederationValuation
from epsilens.show.rounding import format_count

__all__ = ["valuation_sentences"]


def valuation_sentences(valuation: FederationValuation) -> list[str]:
    """Say what records are worth and what the exchange cost; then, a line each, who learnt what.

    Parameters
    ----------
    valuation : FederationValuation

    Returns
    -------
    list of str

    Examples
    --------
    >>> found = FederationValuation(provider=0, tester=2, mode="items", change="add", n=20,
    ...     total=0.003, harmful=4, resolution=1e-9, version=0, n_parameters=12, messages=6,
    ...     bytes=2_000_000, seconds=1.5)
    >>> valuation_sentences(found)[0]
    "20 records that site 0 has on offer, valued on site 2's: together worth 0.003 of its mean loss (positive helps); 4 of them harm. 6 messages, 2.00 MB, 1.5 s. They were not taken into the model."
    """
    return [_worth(valuation), *valuation.learnt]


def _worth(valuation: FederationValuation) -> str:
    where = "has on offer" if valuation.change == "add" else "has in the model"
    if valuation.mode == "items":
        what = f"{format_count(valuation.n)} records that site {valuation.provider} {where}"
        harm = f"; {format_count(valuation.harmful)} of them harm"
    else:
        what, harm = f"All that site {valuation.provider} {where}", ""
    took = f"{format_count(valuation.messages)} messages, {_size(valuation.bytes)}"
    if valuation.seconds is not None:
        took += f", {valuation.seconds:.1f} s"
    taken = " They were not taken into the model." if valuation.change == "add" else ""
    if valuation.accepted is not None:
        taken = f" They were accepted: version {valuation.accepted}."
    return (
        f"{what}, valued on site {valuation.tester}'s: together worth {valuation.total:.3g} of its mean loss "
        f"(positive helps){harm}. {took}.{taken}"
    )


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.2f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:,.1f} kB"
