# SPDX-License-Identifier: Apache-2.0
"""What a site says about its records: sums of losses, gradients and Hessians at a given model.

They are computed from the randomised records alone. `expected_sums` takes the mean over the noise that
would still be added, so a preview needs no draw.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from epsilens._types import FloatArray
from epsilens.channels import RandomizedResponse
from epsilens.errors import InputError
from epsilens.federated.declaration import FederationSchema, Records
from epsilens.models.design import Design
from epsilens.models.solver import Curvature, factorise
from epsilens.valuation.batch_exchange import require_batch

LARGEST_NUMBER_OF_PATTERNS = 4096
"""So many combinations of protected features are gone through one by one."""


@dataclass(frozen=True)
class SiteSums:
    """Sums over the records of a site; the penalty is not among them.

    Parameters
    ----------
    n : int
        How many records.
    loss : float
        Σ ℓ(z, θ).
    gradient : array of shape (p,)
        Σ ∇ℓ(z, θ).
    hessian : array of shape (p, p), optional
        Σ ∇²ℓ(z, θ).
    """

    n: int
    loss: float
    gradient: FloatArray
    hessian: FloatArray | None = None

    def __add__(self, other: SiteSums) -> SiteSums:
        """Add a change to sums over the same records."""
        return self._with(other, 1.0)

    def __sub__(self, other: SiteSums) -> SiteSums:
        """Return the change from other sums over the same records."""
        return self._with(other, -1.0)

    def without(self, other: SiteSums) -> SiteSums:
        """Return the sums over the records that are left when those of `other` go."""
        kept = self - other
        return SiteSums(self.n - other.n, kept.loss, kept.gradient, kept.hessian)

    def _with(self, other: SiteSums, sign: float) -> SiteSums:
        hessian = None
        if self.hessian is not None and other.hessian is not None:
            hessian = self.hessian + sign * other.hessian
        return SiteSums(
            self.n, self.loss + sign * other.loss, self.gradient + sign * other.gradient, hessian
        )


def add_up(parts: Iterable[SiteSums]) -> SiteSums:
    """Return the sums over several sites, in the order given.

    Parameters
    ----------
    parts : iterable of SiteSums
        At least one.

    Returns
    -------
    SiteSums
        With a Hessian if all have one.

    Examples
    --------
    >>> import numpy as np
    >>> add_up([SiteSums(2, 1.0, np.ones(2)), SiteSums(3, 2.0, np.ones(2))]).gradient
    array([2., 2.])
    """
    members = list(parts)
    if not members:
        raise InputError("at least one site must take part, got none.")
    hessians = [part.hessian for part in members if part.hessian is not None]
    return SiteSums(
        sum(part.n for part in members),
        math.fsum(part.loss for part in members),
        np.sum([part.gradient for part in members], axis=0),
        np.sum(hessians, axis=0) if len(hessians) == len(members) else None,
    )


def upper_half(matrix: FloatArray) -> FloatArray:
    """Return the upper half of a symmetric matrix, row after row: what travels of it.

    Examples
    --------
    >>> upper_half(np.array([[4.0, 5.0], [5.0, 6.0]]))
    array([4., 5., 6.])
    """
    return matrix[np.triu_indices(len(matrix))]


def whole_of(half: FloatArray, size: int) -> FloatArray:
    """Return the symmetric matrix with this upper half.

    Examples
    --------
    >>> whole_of(np.array([4.0, 5.0, 6.0]), 2).tolist()
    [[4.0, 5.0], [5.0, 6.0]]
    """
    full, upper = np.zeros((size, size)), np.triu_indices(size)
    full[upper] = half
    full.T[upper] = half
    return full


def site_sums(
    records: Records, schema: FederationSchema, theta: FloatArray, *, hessian: bool = True
) -> SiteSums:
    """Return the sums over a site's records at a model.

    Parameters
    ----------
    records : Records
        The randomised ones.
    schema : FederationSchema
    theta : array of shape (p,)
        The model, output after output.
    hessian : bool
        Whether the Hessian is wanted too.

    Returns
    -------
    SiteSums

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.federated import DeclaredColumn, FederationSchema, Records
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> records = Records(np.array([[0, 1], [1, 1]]), np.empty((2, 0)))
    >>> site_sums(records, schema, np.zeros(2)).gradient
    array([-0.5, -1. ])
    """
    statistic = schema.loss.statistic(schema.labels(records))
    return _sums(schema.design(records), schema, theta, statistic, np.ones(records.n), hessian)


def expected_sums(
    records: Records,
    schema: FederationSchema,
    theta: FloatArray,
    channels: Mapping[str, RandomizedResponse],
    *,
    hessian: bool = True,
) -> SiteSums:
    """Return the sums that are to be expected once each protected answer has passed its channel.

    Parameters
    ----------
    records : Records
        Before the channels.
    schema : FederationSchema
    theta : array of shape (p,)
    channels : mapping of column to RandomizedResponse
        For every protected column.
    hessian : bool

    Returns
    -------
    SiteSums

    Raises
    ------
    InputError
        If the protected features have more than 4,096 combinations of answers.

    Notes
    -----
    Σ_z Σ_alt w(alt) ∇ℓ(alt, θ) (P2 Eqs. 14–18, math.md 2), where `alt` runs over every combination of
    protected answers, Π d_f of them and not 2^|F| as printed. A canonical loss is linear in the
    statistic of the label, so the label needs no combinations of its own.

    Examples
    --------
    >>> from epsilens.federated import DeclaredColumn
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> records = Records(np.array([[0, 1], [1, 1]]), np.empty((2, 0)))
    >>> channels = {"smokes": RandomizedResponse(2, 1.0)}
    >>> expected_sums(records, schema, np.zeros(2), channels).gradient.round(3)
    array([-0.231, -0.462])
    """
    features = [name for name in schema.protected if name != schema.label.name]
    sizes = [schema.sizes[name] for name in features]
    if math.prod(sizes) > LARGEST_NUMBER_OF_PATTERNS:
        raise InputError(
            f"the protected features have {math.prod(sizes)} combinations of answers, and a preview "
            f"goes through at most {LARGEST_NUMBER_OF_PATTERNS}. Protect fewer columns, or apply the "
            "change with a draw."
        )
    statistic = _expected_statistic(records, schema, channels)
    places = [schema.positions[name] for name in features]
    total: SiteSums | None = None
    for pattern in itertools.product(*map(range, sizes)):
        weights = np.ones(records.n)
        for name, place, code in zip(features, places, pattern, strict=True):
            channel = channels[name]
            weights *= channel.flip_probability + channel.a * (records.codes[:, place] == code)
        rows = np.flatnonzero(weights)
        if not len(rows):
            continue
        part = records.take(rows)
        changed = part.with_codes(places, np.array(pattern, dtype=np.int64)) if places else part
        sums = _sums(schema.design(changed), schema, theta, statistic[rows], weights[rows], hessian)
        total = sums if total is None else add_up([total, sums])
    if total is None:
        raise InputError("a site must have at least one record, got none.")
    return SiteSums(records.n, total.loss, total.gradient, total.hessian)


def _expected_statistic(
    records: Records, schema: FederationSchema, channels: Mapping[str, RandomizedResponse]
) -> FloatArray:
    """Return E[t(y)] for each record: (n, K)."""
    y = schema.labels(records)
    own = schema.loss.statistic(y)
    if schema.label.name not in channels:
        return own
    channel = channels[schema.label.name]
    every = schema.loss.statistic(np.arange(schema.label.size, dtype=np.float64))
    mean: FloatArray = channel.a * own + channel.flip_probability * every.sum(axis=0)
    return mean


def _sums(
    design: Design,
    schema: FederationSchema,
    theta: FloatArray,
    statistic: FloatArray,
    weights: FloatArray,
    hessian: bool,
) -> SiteSums:
    loss = schema.loss
    s = design.predict(theta)
    first = np.zeros(len(s))
    # ℓ(s, y) = ψ(s) − ⟨t, s⟩ for these losses; ψ from any label of the domain, here the first.
    cumulant = loss.value(s, first) + (loss.statistic(first) * s).sum(axis=1)
    value = cumulant - (statistic * s).sum(axis=1)
    slope = (loss.mean(s.copy()) - statistic) * weights[:, None]
    curvature = None
    if hessian:
        curvature = design.gram(loss.curvature(s) * weights[:, None, None])
    return SiteSums(len(s), float(weights @ value), design.pull(slope), curvature)


def accepted_sums(records: Records, schema: FederationSchema, theta: FloatArray) -> SiteSums:
    """Return what a provider submits of records that were accepted: their gradient and Hessian.

    Parameters
    ----------
    records : Records
        The accepted ones; in a federation whose columns are protected, the draw of them.
    schema : FederationSchema
    theta : array of shape (p,)
        The model at which they were scored.

    Returns
    -------
    SiteSums

    Raises
    ------
    InputError
        If they are too few: the coordinator could solve for them (P4, "Security properties"; weak, see
        `epsilens.valuation.batch_exchange`).

    Examples
    --------
    >>> from epsilens.federated import DeclaredColumn
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> records = Records(np.array([[0, 1], [1, 0], [1, 1]]), np.empty((3, 0)))
    >>> accepted_sums(records, schema, np.zeros(2)).gradient
    array([ 0. , -0.5])
    """
    require_batch(records.n, schema.n_parameters, schema.loss.n_outputs)
    return site_sums(records, schema, theta)


# --- The objective of all sites together, from their sums: F(θ) = (1/N) Σ ℓ + ½ λ θᵀDθ ---

_GAUGE = 1.0
"""Holds the mean over the classes of a softmax at zero; no prediction depends on it."""


@dataclass(frozen=True)
class Penalty:
    """½ λ θᵀDθ, with D the identity but for the intercept, in the mean convention.

    Parameters
    ----------
    strength : float, ≥ 0
        λ. It does not change when a site leaves.
    n_features : int
        Columns of the design, the intercept included.
    n_outputs : int
    intercept : bool
        Whether the last feature is one, which is free.

    Examples
    --------
    >>> import numpy as np
    >>> Penalty(0.1, n_features=2, n_outputs=1, intercept=True).gradient(np.array([2.0, 5.0]))
    array([0.2, 0. ])
    """

    strength: float
    n_features: int
    n_outputs: int
    intercept: bool

    @property
    def _diagonal(self) -> FloatArray:
        diagonal = np.full(self.n_features, self.strength)
        if self.intercept:
            diagonal[-1] = 0.0
        return diagonal

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return λDθ, and for several classes what holds their mean."""
        by_output = theta.reshape(self.n_outputs, self.n_features)
        result: FloatArray = self._diagonal * by_output
        if self.n_outputs > 1:
            result += _GAUGE * by_output.mean(axis=0)
        return np.asarray(result.ravel(), dtype=np.float64)

    def value(self, theta: FloatArray) -> float:
        """Return the penalty itself."""
        return 0.5 * float(theta @ self.gradient(theta))

    def hessian(self) -> FloatArray:
        """Return its second derivative."""
        hessian: FloatArray = np.kron(np.eye(self.n_outputs), np.diag(self._diagonal)).astype(float)
        if self.n_outputs > 1:
            share = np.full((self.n_outputs, self.n_outputs), _GAUGE / self.n_outputs)
            hessian += np.kron(share, np.eye(self.n_features))
        return hessian


@dataclass(frozen=True)
class Objective:
    """Value, gradient and Hessian of the common objective at one model.

    Parameters
    ----------
    theta : array of shape (p,)
    sums : SiteSums
        Over all sites.
    penalty : Penalty
    """

    theta: FloatArray
    sums: SiteSums
    penalty: Penalty

    @property
    def value(self) -> float:
        """F(θ)."""
        return self.sums.loss / self.sums.n + self.penalty.value(self.theta)

    @property
    def gradient(self) -> FloatArray:
        """∇F(θ)."""
        return self.sums.gradient / self.sums.n + self.penalty.gradient(self.theta)

    def curvature(self) -> Curvature:
        """Return ∇²F(θ), factorised.

        Raises
        ------
        EstimateNotTrustworthyError
            If it cannot be inverted.
        """
        if self.sums.hessian is None:
            raise ValueError("the sums were asked for without their Hessian")
        hessian = self.sums.hessian / self.sums.n + self.penalty.hessian()
        return factorise(0.5 * (hessian + hessian.T))
