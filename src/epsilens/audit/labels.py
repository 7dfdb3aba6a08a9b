# SPDX-License-Identifier: Apache-2.0
"""An audit of labels without canaries: true labels among others that might as well have been true.

Notes
-----
Each record shows either its label or one that is drawn from what is likely for its features, by the toss of a fair
coin [1]_. If labels are independent given the features, and the likely law is the true one, then the shown label
alone says nothing about the coin. Given the output of a mechanism that is ε-private in a record's label, and
all other labels, the odds that a shown label s is the record's own are

    Pr[output | y = s] / Σ_t π(t) Pr[output | y = t] ≤ e^ε,

since each term below is at least e^−ε of the one above. So the coin is guessed right with a probability of at most
e^ε/(1 + e^ε), as that of a canary is, and the bounds of `one_run_bound` hold.

References
----------
.. [1] Kalemaj, I. et al. (2025). Observational auditing of label privacy. arXiv:2511.14084.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from epsilens._types import FloatArray
from epsilens.audit.bound import BoundTest
from epsilens.audit.coins import Purpose, draw_inclusion, own_stream
from epsilens.audit.result import AuditResult, checked_claim, judged
from epsilens.errors import InputError, setting

if TYPE_CHECKING:
    from epsilens.audit.bound import Method, OneRunBound, Selection

LABEL_ASSUMPTIONS = (
    "labels that are independent given the features",
    "the likely labels follow the true law",
)
"""What an audit without canaries takes for granted, beside what its bound does."""


def audit_labels(
    labels: ArrayLike,
    probabilities: ArrayLike,
    likely: ArrayLike,
    *,
    control: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    claimed_epsilon: float | None = None,
    claimed_delta: float | None = None,
    method: Method | None = None,
    selection: str | int | Selection | None = None,
    confidence: float = 0.95,
    random_state: int | None = None,
    name: str = "labels",
) -> AuditResult:
    """Audit how well the labels of a training set are hidden, from a finished run and without canaries.

    Nothing is put into the training data. Use it for randomised labels and for training that is private in the
    label. It proves less than an audit with canaries: half of what is shown instead may be the true label.

    Parameters
    ----------
    labels : array of int, (n,)
        True labels of training records, as codes from 0.
    probabilities : array, (n, k)
        What the released model says of each label; or 1 for the released label and 0 for the others.
    likely : array, (n, k)
        How likely each label is for the features, from a model that never saw these records' labels.
    control : tuple of three arrays, optional
        Labels, probabilities and likely labels of as many records whose labels the release never used. Nothing is
        given away of these: a bound above 0 shows that `likely` is off, and the audit is refused.
    claimed_epsilon : float in [0, inf), optional
        The claim about one label; None: the bound alone.
    claimed_delta : float in [0, 1), optional
        Its δ.
    method, selection, confidence
        See `one_run_bound`.
    random_state : int, optional
        Makes the coins and the labels that are shown instead repeatable.
    name : str
        What was audited, for the document.

    Returns
    -------
    AuditResult
        With two more assumptions, so that the bound counts as estimated. Where `likely` is off, it is too high:
        from 500 records a logistic regression of the right form called a release broken that gave nothing away,
        in most simulations. Safe are labels whose law is known by design; else give a `control`.

    Raises
    ------
    InputError
        If the arrays do not fit each other, rows of `likely` are no probabilities, or the control shows that
        `likely` is off.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 2, 2000)
    >>> released = np.where(rng.random(2000) < 0.9, labels, 1 - labels)   # ε = 2.2
    >>> found = audit_labels(labels, np.eye(2)[released], np.full((2000, 2), 0.5), random_state=0)
    >>> 0.7 < found.epsilon_lower_bound < 2.2
    True
    """
    started = time.perf_counter()
    epsilon, delta = checked_claim(claimed_epsilon, claimed_delta)
    test = BoundTest.checked(delta or 0.0, confidence, method, selection)
    if control is not None:
        outside = _bound(test, *_checked(*control), random_state, purpose="parts")
        if outside.epsilon_lower_bound > 0.0:
            raise InputError(
                argument="likely",
                expected="labels as likely as they are in truth",
                got="others: they give labels away that the release never used",
                hint="Learn `likely` from more records, or audit with canaries.",
            )
    bound = _bound(test, *_checked(labels, probabilities, likely), random_state)
    bound = replace(bound, assumptions=[*bound.assumptions, *LABEL_ASSUMPTIONS])
    return judged(
        bound, epsilon=epsilon, delta=delta, name=name, started=started, seed=random_state
    )


def _bound(
    test: BoundTest,
    codes: np.ndarray[tuple[int], np.dtype[np.int64]],
    known: FloatArray,
    law: FloatArray,
    random_state: int | None,
    *,
    purpose: Purpose = "canaries",
) -> OneRunBound:
    """Show each label or another one that is as likely, and bound ε by how well the two are told apart."""
    included = draw_inclusion(len(codes), random_state)
    generator = own_stream(random_state, purpose=purpose)
    # One uniform number a record picks the label that is shown instead.
    drawn = (law.cumsum(axis=1) < generator.random(len(codes))[:, None]).sum(axis=1)
    shown = np.where(included, codes, np.minimum(drawn, law.shape[1] - 1))
    rows, least = np.arange(len(codes)), np.finfo(np.float64).tiny
    # How much likelier the model finds the shown label than the features alone make it.
    scores = np.log(np.maximum(known[rows, shown], least)) - np.log(
        np.maximum(law[rows, shown], least)
    )
    return test.bound(included, scores)


def _checked(
    labels: ArrayLike, probabilities: ArrayLike, likely: ArrayLike
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], FloatArray, FloatArray]:
    codes = np.atleast_1d(np.asarray(labels))
    known, law = (
        np.atleast_2d(np.asarray(each, dtype=np.float64)) for each in (probabilities, likely)
    )
    n, k = len(codes), law.shape[-1]
    if codes.ndim != 1 or codes.dtype.kind not in "iu" or known.shape != (n, k) or law.ndim != 2:
        raise InputError(
            f"{setting('labels')} must be codes, one for each row of {setting('probabilities')} and "
            f"{setting('likely')}, which have a column for each label, got shapes {codes.shape}, {known.shape} and "
            f"{law.shape}."
        )
    if law.shape != known.shape or codes.min(initial=0) < 0 or codes.max(initial=0) >= k:
        raise InputError(
            f"{setting('labels')} must be codes from 0 to {k - 1}, one for each column of {setting('likely')}, got "
            "others."
        )
    if not (np.isfinite(known).all() and (law >= 0).all() and np.allclose(law.sum(axis=1), 1.0)):
        raise InputError(
            argument="likely",
            expected="probabilities that add up to 1 in every row",
            got="other numbers",
        )
    return codes.astype(np.int64), known, law
