# SPDX-License-Identifier: Apache-2.0
"""What a site does to its own records before anything leaves: one draw, kept (math.md 1 and 6).

Three draws are possible. `randomise` draws from the true answers. `degrade` adds noise to what was
drawn already: nobody's budget grows. `relax` draws a less noisy version that, together with the old
one, spends no more than its own ε. Everything else that a site sends is computed from these draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from epsilens._validate import as_epsilon
from epsilens.channels import Budget, RandomizedResponse
from epsilens.channels.draw import Words, released_words
from epsilens.errors import InputError, setting
from epsilens.federated.declaration import FederationSchema, Records

EpsilonLike: TypeAlias = float | Mapping[str, float] | Budget
"""One ε for every protected column, or one for each."""


def as_budget(schema: FederationSchema, epsilon: EpsilonLike) -> Budget:
    """Return ε for each protected column of the schema, in its order.

    Parameters
    ----------
    schema : FederationSchema
    epsilon : float, mapping or Budget
        One for all protected columns, or one for each.

    Returns
    -------
    Budget

    Raises
    ------
    InputError
        If a column has none, or one that is not protected has.

    Examples
    --------
    >>> from epsilens.federated import DeclaredColumn, FederationSchema
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes", "sex"))
    >>> as_budget(schema, 3.0).per_record
    6.0
    """
    if isinstance(epsilon, Budget):
        epsilon = epsilon.per_column
    if not isinstance(epsilon, Mapping):
        return Budget.uniform(schema.protected, as_epsilon(epsilon))
    if set(epsilon) != set(schema.protected):
        raise InputError(
            f"{setting('epsilon')} must name each protected column once: "
            f"{', '.join(schema.protected)}. Got {', '.join(map(str, epsilon)) or 'none'}."
        )
    return Budget({name: epsilon[name] for name in schema.protected})


def is_stricter(wanted: Budget, present: Budget) -> bool:
    """Say whether no column's ε is larger than before."""
    return all(e <= present.per_column[name] for name, e in wanted.per_column.items())


def randomise(
    records: Records,
    schema: FederationSchema,
    budget: Budget,
    *,
    random_state: int | np.random.Generator | None = None,
) -> Records:
    """Pass each protected answer once through k-ary randomised response at its column's ε.

    Parameters
    ----------
    records : Records
        The true ones.
    schema : FederationSchema
        Gives the number of possible answers, which never comes from the data.
    budget : Budget
        ε of each protected column.
    random_state : None, int or numpy.random.Generator
        None: the operating system. Anything else simulates, with a warning.

    Returns
    -------
    Records
        Only the protected columns differ.

    Notes
    -----
    P2 Section 3.2. The authors' data kept an answer with e^ε/(1 + e^ε) whatever the number of answers
    k, which gives ε + log(k − 1) instead of ε; here it is e^ε/(k − 1 + e^ε).

    Examples
    --------
    >>> from epsilens.federated import DeclaredColumn
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> truth = Records(np.array([[0, 1], [1, 0]] * 5000), np.empty((10_000, 0)))
    >>> same = (randomise(truth, schema, Budget({"smokes": 1.0})).codes == truth.codes).mean(axis=0)
    >>> bool(same[0] == 1.0), bool(0.7 < same[1] < 0.76)  # e/(1 + e) = 0.731
    (True, True)
    """
    channels = {
        name: RandomizedResponse(k, budget.per_column[name]) for name, k in schema.sizes.items()
    }
    largest = max((c.epsilon for c in channels.values() if c.epsilon < math.inf), default=0.0)
    return _draw(records, schema, channels, released_words(largest, random_state))


def channels_between(
    schema: FederationSchema, present: Budget, wanted: Budget
) -> dict[str, RandomizedResponse]:
    """Return the noise P_τ for each protected column that brings a draw from one ε to a stricter one.

    Parameters
    ----------
    schema : FederationSchema
    present, wanted : Budget
        No column of `wanted` may have a larger ε.

    Returns
    -------
    dict of column to RandomizedResponse

    Raises
    ------
    InputError
        If one has.

    Examples
    --------
    >>> from epsilens.channels import Budget
    >>> from epsilens.federated import DeclaredColumn, FederationSchema
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> step = channels_between(schema, Budget({"smokes": 3.0}), Budget({"smokes": 1.0}))["smokes"]
    >>> RandomizedResponse(2, 3.0).compose(step)
    RandomizedResponse(k=2, epsilon=1)
    """
    if not is_stricter(wanted, present):
        raise InputError(
            argument="epsilon",
            expected="at most the present one for every column: noise cannot be taken away",
            hint="Ask for `redraw` to spend more.",
        )
    return {
        name: RandomizedResponse(k, present.per_column[name]).degrade_to(wanted.per_column[name])
        for name, k in schema.sizes.items()
    }


def degrade(
    records: Records,
    schema: FederationSchema,
    present: Budget,
    wanted: Budget,
    *,
    random_state: int | np.random.Generator | None = None,
) -> Records:
    """Add noise to records that are randomised already, until they are at the stricter ε.

    The true answers are not touched: whoever saw messages about the old draw learns nothing new.

    Parameters
    ----------
    records : Records
        Drawn at `present`.
    schema : FederationSchema
    present, wanted : Budget
        No column of `wanted` may have a larger ε.
    random_state : None, int or numpy.random.Generator

    Returns
    -------
    Records
        Distributed as a draw from the true answers at `wanted` (math.md 1).

    Examples
    --------
    >>> from epsilens.federated import DeclaredColumn
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> truth = Records(np.array([[0, 1], [1, 0]] * 5000), np.empty((10_000, 0)))
    >>> exact, one = Budget({"smokes": math.inf}), Budget({"smokes": 1.0})
    >>> same = (degrade(truth, schema, exact, one).codes == truth.codes).mean(axis=0)
    >>> bool(0.7 < same[1] < 0.76)  # as `randomise`
    True
    """
    # The added noise may be so little that no ε of its own can be kept; what is promised is the ε
    # of the draw that it is added to.
    words = released_words(0.0, random_state)
    return _draw(records, schema, channels_between(schema, present, wanted), words)


def relax(
    truth: Records,
    reports: Records,
    schema: FederationSchema,
    present: Budget,
    wanted: Budget,
    *,
    random_state: int | np.random.Generator | None = None,
) -> Records:
    """Draw reports at a larger ε that together with the old ones spend no more than it.

    Parameters
    ----------
    truth : Records
    reports : Records
        Drawn from `truth` at `present`, once.
    schema : FederationSchema
    present, wanted : Budget
        No column of `wanted` may have a smaller ε.
    random_state : None, int or numpy.random.Generator

    Returns
    -------
    Records
        At `wanted`; the pair of old and new reports is at `wanted` too (math.md 1).

    Examples
    --------
    >>> from epsilens.federated import DeclaredColumn
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> truth = Records(np.array([[0, 1], [1, 0]] * 20), np.empty((40, 0)))
    >>> one, exact = Budget({"smokes": 1.0}), Budget({"smokes": math.inf})
    >>> reports = randomise(truth, schema, one)
    >>> bool((relax(truth, reports, schema, one, exact).codes == truth.codes).all())
    True
    """
    if not is_stricter(present, wanted):
        raise InputError(
            argument="epsilon", expected="at least the present one for every column to relax"
        )
    drawn = reports
    for name, k in schema.sizes.items():
        place = schema.positions[name]
        channel = RandomizedResponse(k, present.per_column[name])
        codes = channel.relax_to(
            truth.codes[:, place],
            reports.codes[:, place],
            epsilon=wanted.per_column[name],
            random_state=random_state,
        )
        drawn = drawn.with_codes([place], codes[:, None])
    return drawn


def _draw(
    records: Records,
    schema: FederationSchema,
    channels: Mapping[str, RandomizedResponse],
    words: Words,
) -> Records:
    places = [schema.positions[name] for name in channels]
    codes = np.column_stack(
        [
            channel.draw(records.codes[:, place], words)
            for place, channel in zip(places, channels.values(), strict=True)
        ]
    )
    return records.with_codes(places, codes)
