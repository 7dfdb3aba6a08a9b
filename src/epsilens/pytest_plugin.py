# SPDX-License-Identifier: Apache-2.0
"""A fixture of pytest, so that a project can gate a mechanism of its own: found by pytest where epsilens is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from epsilens.audit import AuditResult, Canaries, Mechanism
    from epsilens.audit.bound import Method
    from epsilens.audit.mechanisms import BareCallable
    from epsilens.audit.scores import Score

CONFIDENCE = 0.9999
"""Confidence level: an honest mechanism fails one test in ten thousand."""


class Audit(Protocol):
    """What the fixture `epsilens_audit` is."""

    def __call__(
        self,
        mechanism: Mechanism | BareCallable,
        *,
        epsilon: float,
        delta: float = 0.0,
        canaries: int | Canaries = 1000,
        dimension: int | None = None,
        method: Method | None = None,
        score: Score | None = None,
        confidence: float = CONFIDENCE,
    ) -> AuditResult:
        """Audit a mechanism from one run and fail the test if its claim is broken.

        Parameters
        ----------
        mechanism : callable or Mechanism
            Turns an array of rows into an output.
        epsilon : float, greater than 0
            The privacy level that is claimed.
        delta : float in [0, 1)
            Its delta.
        canaries : int or Canaries
            For a callable a number of rows of length 1: each in a direction of its own, or in random directions
            where `dimension` is given.
        dimension : int, optional
            Dimensions of the rows.
        method, score, confidence
            As of `OneRunAudit`.

        Returns
        -------
        AuditResult
            The bound beside the claim.
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
    canaries: int | Canaries = 1000,
    dimension: int | None = None,
    method: Method | None = None,
    score: Score | None = None,
    confidence: float = CONFIDENCE,
) -> AuditResult:
    __tracebackhide__ = True
    from epsilens.audit import Mechanism, OneRunAudit, one_hot_directions, random_unit_vectors

    if isinstance(canaries, int) and not isinstance(mechanism, Mechanism):
        canaries = (
            one_hot_directions(canaries)
            if dimension is None
            else random_unit_vectors(canaries, dimension)
        )
    result = OneRunAudit(
        mechanism,
        canaries=canaries,
        score=score,
        claimed_epsilon=epsilon,
        claimed_delta=delta,
        method=method,
        confidence=confidence,
    ).run()
    if result.is_broken:
        pytest.fail(result.verdict, pytrace=False)
    return result
