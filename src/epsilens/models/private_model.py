# SPDX-License-Identifier: Apache-2.0
"""What models that may be published have in common: promised bounds, kinds of randomness, a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from epsilens._types import WordArray
from epsilens._validate import as_between, as_generator, as_positive, as_share
from epsilens.errors import InputError, PrivacyLeakWarning, setting
from epsilens.models.gaussian_release import FITS, rho_of_epsilon
from epsilens.models.ridge_bounds import BOUND_RANGE, RHO_RANGE
from epsilens.notes import Note

# How far, in sensitivities, a computed minimiser may lie from the exact one; each of two neighbours
# may, so the sensitivity grows by twice this. Fixed beforehand: the noise must not depend on data.
SOLVER_ALLOWANCE: Final = 1e-5
_EPSILON_RANGE: Final = (1e-12, 1e8)


class PrivateModel:
    """A model with noise: reads its settings, refuses those that prove nothing, warns of leaks."""

    epsilon: float | None
    delta: float | None
    random_state: int | np.random.Generator | np.random.RandomState | None
    fit_intercept: bool
    intercept_constant: float | None
    bounds_from_data: bool
    max_total_rho: float | None

    def _rho_of_epsilon(self) -> float:
        """Return the budget that (ε, δ) give, exactly."""
        if self.epsilon is None:
            raise InputError(
                argument="epsilon", expected=f"given, with {setting('delta')}", got="none"
            )
        if self.delta is None:
            raise InputError(
                f"{setting('epsilon')} must come with {setting('delta')}, got none. Use for "
                "instance delta=1e-6, well below one over the number of records."
            )
        epsilon = as_between(self.epsilon, *_EPSILON_RANGE, name="epsilon")
        rho = rho_of_epsilon(epsilon, as_share(self.delta, name="delta"))
        return as_between(rho, *RHO_RANGE, name="rho")

    def _generator(self) -> np.random.Generator | None:
        """Return the generator of a simulation; None for a release."""
        if self.random_state is None:
            return None
        self._warn_of(
            "simulated",
            "a seed was given, so this is a simulation and protects nobody",
            stacklevel=4,
        )
        if isinstance(self.random_state, np.random.RandomState):
            return np.random.default_rng(int(self.random_state.randint(2**31)))
        return as_generator(self.random_state)

    def _given_bounds(self, names: Sequence[str]) -> dict[str, float]:
        """Return the bounds that were given; refuse missing ones unless the data may be read."""
        given = {name: getattr(self, name) for name in names}
        missing = [name for name, value in given.items() if value is None]
        known = {
            name: as_between(value, *BOUND_RANGE, name=name)
            for name, value in given.items()
            if value is not None
        }
        if missing and not self.bounds_from_data:
            raise InputError(
                f"{' and '.join(f'`{name}`' for name in missing)} must be given, from what is known "
                "without looking at the data. bounds_from_data=True reads them off, and leaks."
            )
        return known

    def _warn_of_read_bounds(self, names: Sequence[str]) -> None:
        self._warn_of(
            "bounds-from-data",
            f"{', '.join(names)} was read off the data, which no noise covers",
            stacklevel=5,
        )

    def _constant(self, x_bound: float, *, default: float) -> float:
        """Return the value of the intercept's column; 0 without an intercept."""
        if not self.fit_intercept:
            return 0.0
        if self.intercept_constant is None:
            return default
        constant = as_between(self.intercept_constant, *BOUND_RANGE, name="intercept_constant")
        if constant >= x_bound:
            raise InputError(
                argument="intercept_constant",
                expected=f"below x_bound = {x_bound:g}",
                got=f"{constant:g}",
                hint="Features need room beside it.",
            )
        return constant

    def _limit(self) -> float | None:
        limit = self.max_total_rho
        return None if limit is None else as_positive(limit, name="max_total_rho")

    def _enter(self, records: WordArray, rho: float, limit: float | None) -> float:
        """Record a real fit, and warn if some of its records were used before."""
        total = FITS.enter(records, rho, limit=limit)
        if total.n_fits > 1:
            self._warn_of(
                "released-before",
                f"these records have been used in {total.n_fits} fits of this process, so ρ adds up to "
                f"{total.rho:g}",
                stacklevel=4,
            )
        return total.rho

    def _warn_of(self, code: str, leak: str, *, stacklevel: int = 3) -> None:
        """Warn at the line of the user, who stands as many calls above."""
        text = f"{type(self).__name__}: {leak}."
        Note(code, text).warn(PrivacyLeakWarning, stacklevel=stacklevel)
