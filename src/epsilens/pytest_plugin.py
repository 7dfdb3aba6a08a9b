# SPDX-License-Identifier: Apache-2.0
"""A fixture of pytest, so that a project can gate a mechanism of its own: found by pytest where epsilens is installed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from epsilens.audit import AuditResult, Canaries, Mechanism, OneRunAudit
    from epsilens.audit.bound import Method
    from epsilens.audit.mechanisms import BareCallable
    from epsilens.audit.plan import Plan
    from epsilens.audit.scores import Score

CONFIDENCE = 0.9999
"""Confidence level: an honest mechanism fails one test in ten thousand."""
_REFUSED = 0.03
"""Share of honest runs at most that a test of shape refuses, in methods that assume normal scores or noise."""


class Audit(Protocol):
    """What the fixture `epsilens_audit` is."""

    def __call__(
        self,
        mechanism: Mechanism | BareCallable,
        *,
        epsilon: float,
        delta: float = 0.0,
        canaries: int | Canaries | None = None,
        dimension: int | None = None,
        method: Method | None = None,
        score: Score | None = None,
        confidence: float = CONFIDENCE,
        runs: int | None = None,
    ) -> AuditResult:
        """Audit a mechanism and fail the test if its claim is broken, or if no audit could be made.

        Parameters
        ----------
        mechanism : callable or Mechanism
            Turns an array of rows into an output. Each call must draw fresh noise.
        epsilon : float, greater than 0
            The privacy level that is claimed.
        delta : float in [0, 1)
            Its delta.
        canaries : int or Canaries, optional
            Canaries in each run. For a callable a number of rows of length 1: each in a direction of its own, or
            in random directions where `dimension` is given. By default up to 1000, fewer for a large delta.
        dimension : int, optional
            Dimensions of the rows.
        method, score, confidence
            As of `OneRunAudit`.
        runs : int, optional
            How often the mechanism runs. By default as often as it takes to make a mechanism without noise fail:
            for epsilon = 1 once at delta = 0, twice up to delta = 1e-5 and 6 times at 1e-3. For epsilon = 8 about 40
            times.

        Returns
        -------
        AuditResult
            The bound beside the claim.

        Notes
        -----
        The test fails if a mechanism without noise would pass. An honest mechanism fails one test in 10,000 at
        most, at the default confidence.
        """


@pytest.fixture
def epsilens_audit() -> Audit:
    """Return a function that audits a mechanism and fails the test if its claim is broken.

    Put into a test of your project:

        def test_the_release_keeps_its_claim(epsilens_audit):
            epsilens_audit(my_release, epsilon=1.0, delta=1e-6)
    """
    return _audit


def _audit(
    mechanism: Mechanism | BareCallable,
    *,
    epsilon: float,
    delta: float = 0.0,
    canaries: int | Canaries | None = None,
    dimension: int | None = None,
    method: Method | None = None,
    score: Score | None = None,
    confidence: float = CONFIDENCE,
    runs: int | None = None,
) -> AuditResult:
    __tracebackhide__ = True
    from epsilens.audit import (
        Canaries,
        Mechanism,
        OneRunAudit,
        one_hot_directions,
        random_unit_vectors,
    )
    from epsilens.audit.bound import checked_level, checked_method
    from epsilens.audit.plan import plan_audit
    from epsilens.audit.result import checked_claim
    from epsilens.errors import InputError

    try:
        checked_claim(epsilon, delta)
        level, kind = checked_level(confidence), checked_method(method, delta)
        plan = plan_audit(
            epsilon,
            delta,
            method=kind,
            level=level,
            n_each=canaries.n_canaries if isinstance(canaries, Canaries) else canaries,
            n_runs=runs,
            # More canaries than dimensions hide each other.
            most_each=1000 if dimension is None else min(dimension, 1000),
        )
        chosen: int | Canaries = canaries if isinstance(canaries, Canaries) else plan.n_each
        if isinstance(chosen, int) and not isinstance(mechanism, Mechanism):
            chosen = (
                one_hot_directions(chosen)
                if dimension is None
                else random_unit_vectors(chosen, dimension)
            )
        audit = OneRunAudit(
            mechanism,
            canaries=chosen,
            score=score,
            claimed_epsilon=epsilon,
            claimed_delta=delta,
            method=method,
            confidence=confidence,
        )
        result = _tried(audit, plan, level)
    except InputError as error:
        if error.__cause__ is not None:  # code of the user's own: its traceback says where
            raise
        pytest.fail(f"the claim was not audited: {error}", pytrace=False)
    if result.is_broken:
        pytest.fail(result.verdict, pytrace=False)
    return result


def _tried(audit: OneRunAudit, plan: Plan, level: float) -> AuditResult:
    """Run the audit; again where a test of shape, which refuses some honest runs, refuses the first.

    As many refusals in a row as are less likely than the error that the confidence allows are final.
    """
    from epsilens.errors import InputError

    again = audit.method in ("gaussian-scores", "residual")
    for _ in range(math.ceil(math.log(level) / math.log(_REFUSED)) - 1 if again else 0):
        try:
            return audit.run_parts(plan.n_parts, plan.runs_each)
        except InputError as error:
            if error.__cause__ is not None:
                raise
    return audit.run_parts(plan.n_parts, plan.runs_each)
