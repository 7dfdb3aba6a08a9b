# SPDX-License-Identifier: Apache-2.0
"""What this process has spent on each record in earlier fits.

A record is recognised by a keyed 64-bit digest of its features and its target, so a fit on some of the records
counts for these. A record that was scaled or encoded in another way is another record.
"""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray, WordArray
from epsilens.errors import BudgetExceededError

__all__ = ["FITS", "FitLedger", "FitTotal"]

# Sums of a few budgets are rounded by less than this share.
_SUMMATION = 1e-12


@dataclass(frozen=True)
class FitTotal:
    """The largest ρ that was spent on one of a fit's records, and over how many fits.

    Attributes
    ----------
    rho : float
    n_fits : int
    """

    rho: float
    n_fits: int


class FitLedger:
    """Accumulated ρ by record, in memory: 24 bytes a record.

    Examples
    --------
    >>> ledger = FitLedger()
    >>> records = ledger.digests(np.eye(3), np.ones(3))
    >>> ledger.enter(records, 0.5)
    FitTotal(rho=0.5, n_fits=1)
    >>> ledger.enter(records[1:], 0.5)
    FitTotal(rho=1.0, n_fits=2)
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._key = secrets.randbits(128)
        self.clear()

    def clear(self) -> None:
        """Forget all fits."""
        self._records: WordArray = np.empty(0, dtype=np.uint64)
        self._rho: FloatArray = np.empty(0)
        self._n_fits: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def digests(self, rows: FloatArray, targets: FloatArray) -> WordArray:
        """Return the sorted digests of records, each once.

        Parameters
        ----------
        rows : array of shape (n_records, n_features)
        targets : array of shape (n_records,)
        """
        keys = np.random.default_rng(self._key).integers(
            0, 2**64, size=rows.shape[1] + 1, dtype=np.uint64
        )
        total = np.zeros(len(rows), dtype=np.uint64)
        for column, key in zip((*rows.T, targets), keys, strict=True):
            # Adding 0 makes −0 and 0 one number.
            total += _mixed((column.astype(np.float64) + 0.0).view(np.uint64) ^ key)
        return np.unique(_mixed(total))

    def total(self, records: WordArray, rho: float, *, limit: float | None) -> FitTotal:
        """Return what one more fit would make of it.

        Raises
        ------
        BudgetExceededError
            If that is more than the limit.
        """
        with self._lock:
            known = np.isin(self._records, records, assume_unique=True)
            before, n_fits = self._rho[known], self._n_fits[known]
        worst = int(before.argmax()) if before.size else None
        spent = rho if worst is None else float(before[worst]) + rho
        if limit is not None and spent > limit * (1.0 + _SUMMATION):
            raise BudgetExceededError(
                f"the fits of these records must stay within `max_total_rho` = {limit:g}, but with ρ = "
                f"{rho:g} of this one they come to {spent:g}. Lower `rho`, or raise `max_total_rho`."
            )
        return FitTotal(spent, 1 if worst is None else int(n_fits[worst]) + 1)

    def enter(self, records: WordArray, rho: float, *, limit: float | None = None) -> FitTotal:
        """Record a fit and return the new total; one thread at a time.

        Raises
        ------
        BudgetExceededError
            As `total`; nothing is recorded then.
        """
        with self._lock:
            found = self.total(records, rho, limit=limit)
            merged = np.union1d(self._records, records)
            spent, n_fits = np.zeros(len(merged)), np.zeros(len(merged), dtype=np.int64)
            old, new = np.searchsorted(merged, self._records), np.searchsorted(merged, records)
            spent[old], n_fits[old] = self._rho, self._n_fits
            spent[new] += rho
            n_fits[new] += 1
            self._records, self._rho, self._n_fits = merged, spent, n_fits
        return found


def _mixed(words: WordArray) -> WordArray:
    """Spread every bit over the whole word (the finaliser of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


FITS = FitLedger()
"""The ledger of this process."""
