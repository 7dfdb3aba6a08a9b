# SPDX-License-Identifier: Apache-2.0
"""A provider's records are valued, and accepted: the model and its Hessian follow (P4, "Maintaining the Hessian")."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from epsilens._types import FloatArray
from epsilens.federated.aggregate import Objective
from epsilens.federated.change import Step
from epsilens.federated.declaration import FederationSchema, Records
from epsilens.federated.sums import SiteSums, add_up, site_sums
from epsilens.valuation.batch_exchange import require_batch
from epsilens.valuation.model_moves import ModelForProvider


def model_for_provider(present: Objective) -> ModelForProvider:
    """Return what the coordinator tells a provider: the model, its inverse Hessian, N and the penalty.

    Parameters
    ----------
    present : Objective
        At the present model, Hessian included, over all sites.

    Returns
    -------
    ModelForProvider

    Examples
    --------
    >>> from epsilens.federated import Penalty
    >>> sums = SiteSums(4, 2.0, np.zeros(2), np.eye(2))
    >>> model = model_for_provider(Objective(np.zeros(2), sums, Penalty(0.1, 2, 1, intercept=True)))
    >>> model.n_records, model.penalty.tolist()
    (4, [0.1, 0.0])
    """
    penalty = present.penalty
    own = np.full((penalty.n_outputs, penalty.n_features), penalty.strength)
    if penalty.intercept:
        own[:, -1] = 0.0
    inverse = present.curvature().solve(np.eye(len(present.theta)))
    return ModelForProvider(present.theta, 0.5 * (inverse + inverse.T), present.sums.n, own.ravel())


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


def acceptance_step(present: Objective, arriving: Iterable[SiteSums]) -> tuple[Step, Objective]:
    """Take accepted records into the model by one Newton step.

    Parameters
    ----------
    present : Objective
        At the present model, Hessian included, over all sites.
    arriving : iterable of SiteSums
        One from each provider, see `accepted_sums`.

    Returns
    -------
    Step
        The new model.
    Objective
        The sums that the coordinator goes on with at the old model, arrivals included: their Hessian
        is P4's running average, Σ H_i n_i / Σ n_i. It is that of the old model; sites that are asked
        again give the one of the new.

    Notes
    -----
    θ ← θ̂ − H′⁻¹∇F′(θ̂) with F′ over all records, new ones included, and λ fixed: the counterpart of
    `removal_step`, and the move that `epsilens.valuation.offer_batch` announces by "newton".

    Examples
    --------
    >>> from epsilens.federated import Penalty
    >>> sums = SiteSums(400, 200.0, np.zeros(2), 100.0 * np.eye(2))
    >>> present = Objective(np.zeros(2), sums, Penalty(0.1, 2, 1, intercept=True))
    >>> offer = SiteSums(100, 50.0, np.array([-25.0, 0.0]), 25.0 * np.eye(2))
    >>> step, after = acceptance_step(present, [offer])
    >>> step.theta.round(3), after.sums.n
    (array([0.143, 0.   ]), 500)
    """
    after = Objective(present.theta, add_up([present.sums, *arriving]), present.penalty)
    if after.sums.hessian is None:
        raise ValueError("accepting records needs the Hessians")
    curvature = after.curvature()
    return Step(present.theta - curvature.solve(after.gradient), present.theta, curvature), after
