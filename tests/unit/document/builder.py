# SPDX-License-Identifier: Apache-2.0
"""Realistic what-if documents without computing anything: smooth curves of a plausible shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace

import numpy as np

from epsilens.decision import decide
from epsilens.decision.compare import Compared
from epsilens.document import (
    Baseline,
    DecisionDocument,
    FederationDocument,
    FederationEntry,
    FederationVersion,
    InspectColumn,
    InspectDocument,
    MechanismCurve,
    Note,
    OutcomeInterval,
    Provenance,
    ReleaseDocument,
    RiskCell,
    RiskDocument,
    ValueDocument,
    ValuePoint,
    WhatIfCell,
    WhatIfDocument,
)
from epsilens.document.decision import TITLES
from epsilens.document.risk import risk_number_types
from epsilens.document.whatif import whatif_number_types
from epsilens.mechanisms import Preview
from epsilens.mechanisms.ceilings import gaussian_tpr
from epsilens.risk import RiskCurve
from epsilens.whatif import LossChangeEstimate


def geometric(start: float, stop: float, count: int) -> list[float]:
    if count == 1:
        return [start]
    ratio = (stop / start) ** (1 / (count - 1))
    return [start * ratio**step for step in range(count)]


def make_whatif(
    *,
    groups: Sequence[str] = ("all",),
    epsilons: Sequence[float | None] | None = None,
    method: str = "exact",
    regression: bool = False,
    untrusted_below: float = 0.0,
    interval: bool = True,
    warnings: Sequence[str] = (),
    settings: dict[str, object] | None = None,
    loss_scale: float = 1.0,
) -> WhatIfDocument:
    grid = geometric(0.1, 10.0, 30) if epsilons is None else list(epsilons)
    cells, intervals = [], []
    for number, group in enumerate(groups):
        for epsilon in grid:
            budget = 1.0 if epsilon is None else epsilon
            lie = 1.0 / (math.exp(min(budget, 700.0)) + 1.0)
            change = loss_scale * 0.62 * lie**2 / (1 + 0.7 * number)
            spread = loss_scale * 0.09 * lie * (1 - lie) + 0.15 * change
            cells.append(
                WhatIfCell(
                    group=group,
                    epsilon=epsilon,
                    record_epsilon=2.0 if epsilon is None else epsilon,
                    method=method,
                    loss_change=change,
                    loss_change_low=change - spread if interval else None,
                    loss_change_high=change + spread if interval else None,
                    accuracy_change=None if regression else -0.35 * lie**2,
                    auc_change=None if regression else -0.2 * lie**2,
                    loss_gap_change=None if group == "all" else 0.1 * lie**2,
                    accuracy_gap_change=None if regression or group == "all" else -0.1 * lie**2,
                    trusted=budget >= untrusted_below,
                )
            )
            if not regression and interval:
                for outcome, size in (("accuracy", 0.35), ("auc", 0.2)):
                    low, high = -size * lie**2 - 0.02 * lie, -size * lie**2 + 0.02 * lie
                    intervals.append(
                        OutcomeInterval(
                            group=group, epsilon=epsilon, outcome=outcome, low=low, high=high
                        )
                    )
    return WhatIfDocument(
        provenance=Provenance(
            method=method,
            settings={"label": "affair", "protect": ["affair"], "epsilon": "0.1:10:30"}
            if settings is None
            else settings,
            seed=0,
            simulated=True,
            schema_fingerprint="9f" * 32,
            seconds=1.84,
        ),
        notes=[Note("unclassified", text) for text in warnings],
        number_types=whatif_number_types(retrained=method == "retrain"),
        baseline=Baseline(
            loss=loss_scale * 0.5432,
            accuracy=None if regression else 0.7236,
            auc=None if regression else 0.7512,
            n_train=4774,
            n_test=1592,
            n_parameters=9,
        ),
        cells=cells,
        intervals=intervals,
    )


def make_release(**changes: object) -> ReleaseDocument:
    content: dict[str, object] = {
        "provenance": Provenance(method="randomised response", schema_fingerprint="9f" * 32),
        "number_types": {"epsilon": "proven", "record_epsilon": "proven"},
        "columns": ["smokes", "income"],
        "epsilon": {"smokes": 1.0, "income": 0.5},
        "record_epsilon": 1.5,
        "rows": 6366,
        "simulated": False,
        "mechanism": "randomised response",
    }
    return ReleaseDocument.model_validate(content | changes)


def make_inspect(**changes: object) -> InspectDocument:
    content: dict[str, object] = {
        "provenance": Provenance(method="inspect", settings={"data": "survey.csv"}),
        "notes": [Note("column-left-out", "`age` was left out.", "age")],
        "rows": 6366,
        "columns": [
            InspectColumn(
                name="affair",
                kind="binary",
                n_distinct=2,
                n_missing=0,
                protectable=True,
                categories=["no", "yes"],
            ),
            InspectColumn(
                name="age", kind="numeric", n_distinct=60, n_missing=12, protectable=False
            ),
            InspectColumn(
                name="[id]",
                kind="identifier",
                n_distinct=6366,
                n_missing=0,
                protectable=False,
                note="left out: every value is different",
            ),
        ],
        "suggestion": "epsilens whatif survey.csv --label affair --protect affair",
    }
    return InspectDocument.model_validate(content | changes)


def make_value(**changes: object) -> ValueDocument:
    content: dict[str, object] = {
        "provenance": Provenance(method="exact", settings={"label": "smokes", "method": "exact"}),
        "number_types": {"mean": "measured"},
        "baseline": Baseline(
            loss=0.5, accuracy=0.7, auc=0.75, n_train=75, n_test=25, n_parameters=3
        ),
        "scored": "training",
        "n": 75,
        "mean": 1e-4,
        "harmful": 30,
        "total": 7.5e-3,
        "clearly_harmful": 2,
        "curve": [ValuePoint(order="score", share=0.1, n_records=8, loss_change=-0.01)],
    }
    return ValueDocument.model_validate(content | changes)


def make_risk(
    *,
    mechanism: str = "rr",
    epsilons: Sequence[float | None] | None = None,
    protect: Sequence[str] = ("affair",),
    record_factor: float = 1.0,
    settings: dict[str, object] | None = None,
    leak: float = 0.06,
    **changes: object,
) -> RiskDocument:
    """Make the risk of a survey of 4,774 people; `leak` lifts the membership attack off its floor."""
    grid = geometric(0.1, 10.0, 10) if epsilons is None else list(epsilons)
    cells = [
        _answer_cell(epsilon, record_factor, leak)
        if mechanism == "rr"
        else _record_cell(1.0 if epsilon is None else epsilon, leak)
        for epsilon in grid
    ]
    content: dict[str, object] = {
        "provenance": Provenance(
            method="shadow models",
            settings={
                "mechanism": mechanism,
                "protect": list(protect),
                "confidence": 0.95,
                "shadow_models": 256,
            }
            if settings is None
            else settings,
            seed=0,
            simulated=True,
            schema_fingerprint="9f" * 32,
            seconds=12.3,
        ),
        "number_types": risk_number_types(),
        "baseline": Baseline(
            loss=0.5432, accuracy=0.7236, auc=0.7512, n_train=4774, n_test=1592, n_parameters=9
        ),
        "n_models": 256,
        "n_targets": 4774,
        "protect": list(protect) if mechanism == "rr" else [],
        "n_answers": [2] * len(protect) if mechanism == "rr" else [],
        "cells": cells,
    }
    return RiskDocument.model_validate(content | changes)


def _membership(budget: float, leak: float) -> dict[str, float]:
    rise = leak * (1.0 - math.exp(-budget / 3.0))
    top = 0.612 + rise + 0.004 * math.sin(7.0 * min(budget, 20.0))
    return {
        "asr_max": top,
        "asr_max_null_q95": 0.633,
        "asr_max_lower_bound": max(top - 0.1, 0.5),
        "asr_max_p_value": 0.4 if top < 0.633 else 0.001,
        "asr_mean": 0.501 + rise / 20,
        "tpr_at_fpr_0_001": 0.0012 + rise / 20,
        "tpr_at_fpr_0_01": 0.0105 + rise / 10,
    }


def _answer_cell(epsilon: float | None, record_factor: float, leak: float) -> RiskCell:
    budget = record_factor * (1.0 if epsilon is None else epsilon)
    learnt = 1.0 / (1.0 + math.exp(-2.0 * (min(budget, 300.0) - 1.2)))
    before = 0.678 + 0.045 * learnt
    rate = before + 0.004 * learnt
    spread = 0.004 + 0.01 * (1.0 - learnt)
    best, advantage = 0.73, math.tanh(budget / 2.0)
    return RiskCell(
        epsilon=epsilon,
        mechanism="rr",
        record_epsilon=budget,
        advantage=advantage,
        answer_inference_rate=rate,
        answer_inference_low=rate - spread,
        answer_inference_high=rate + spread,
        answer_inference_unseen=before,
        answer_inference_baseline=0.724,
        answer_inference_baseline_high=best,
        answer_inference_ceiling=best + (1.0 - best) * advantage,
        accuracy=before,
        **_membership(budget, leak),
    )


def _record_cell(epsilon: float, leak: float) -> RiskCell:
    share = 1.0 / (1.0 + math.exp(-epsilon))
    return RiskCell(
        epsilon=epsilon,
        mechanism="dpsgd",
        delta=1e-5,
        asr_ceiling=share + 1e-5 * (1.0 - share),
        epsilon_lower_bound=max(0.0, 0.25 * min(epsilon, 20.0) - 0.3),
        accuracy=0.60 + 0.12 * (2.0 * share - 1.0),
        noise_multiplier=0.0 if math.isinf(epsilon) else 3.0 / epsilon,
        **_membership(epsilon, leak),
    )


def with_gap_intervals(document: WhatIfDocument) -> WhatIfDocument:
    """Give the gaps of a document their intervals, as groups by expression have them."""
    intervals = [
        OutcomeInterval(
            group=cell.group,
            epsilon=cell.epsilon,
            outcome=outcome,
            low=change - 0.02,
            high=change + 0.01,
        )
        for cell in document.cells
        for outcome, change in (
            ("loss_gap", cell.loss_gap_change),
            ("accuracy_gap", cell.accuracy_gap_change),
        )
        if change is not None
    ]
    return document.model_copy(update={"intervals": [*document.intervals, *intervals]})


def make_curves(
    *, groups: Sequence[str] = ("all",), epsilons: Sequence[float] | None = None, **changes: object
) -> tuple[LossChangeEstimate, RiskCurve]:
    """Make a cost and a risk on one grid, as `decide` takes them."""
    grid = geometric(0.1, 10.0, 30) if epsilons is None else list(epsilons)
    cost = make_whatif(groups=groups, epsilons=grid, **changes)
    risk = make_risk(epsilons=grid)
    return (
        LossChangeEstimate(cost, tuple(np.empty(0) for _ in cost.cells)),
        RiskCurve(risk, (), np.empty(0, dtype=np.intp)),
    )


def make_decision(
    *,
    max_loss_increase: float | None = 0.04,
    max_attack_rate: float | None = 0.85,
    max_advantage: float | None = None,
    measured: bool = True,
    **changes: object,
) -> DecisionDocument:
    cost, risk = make_curves(**changes)
    return decide(
        cost,
        risk,
        max_loss_increase=max_loss_increase,
        max_attack_rate=max_attack_rate,
        max_advantage=max_advantage,
        measured=measured,
    ).document


def scaled(document: WhatIfDocument, factor: float) -> WhatIfDocument:
    """Return a what-if whose costs are so many times as large."""

    def times(part: WhatIfCell | OutcomeInterval, names: Sequence[str]) -> object:
        known = {name: value for name in names if (value := getattr(part, name)) is not None}
        return part.model_copy(update={name: factor * value for name, value in known.items()})

    changes = [name for name in WhatIfCell.model_fields if "_change" in name]
    cells = [times(cell, changes) for cell in document.cells]
    intervals = [times(one, ("low", "high")) for one in document.intervals]
    return document.model_copy(update={"cells": cells, "intervals": intervals})


def make_compared(
    mechanism: str,
    epsilons: Sequence[float],
    changes: Sequence[dict[str, np.ndarray]],
    *,
    protects: str = "answer",
    is_exact: bool = True,
) -> Compared:
    """Make a mechanism of a curator from what its simulated runs change at every budget."""
    previews = tuple(
        Preview.of_runs(
            SimpleNamespace(
                epsilon=epsilon,
                delta=1e-5,
                advantage=math.tanh(epsilon / 8),
                mu=epsilon / 4,
                tpr_ceiling=partial(gaussian_tpr, epsilon / 4),
            ),
            runs,
        )
        for epsilon, runs in zip(epsilons, changes, strict=True)
    )
    curve = MechanismCurve(mechanism=mechanism, trust="curator", protects=protects, cells=[])
    return Compared(curve, previews, is_exact=is_exact)


def make_comparison(
    *,
    mechanisms: Sequence[str] = ("noisy-descent", "output-perturbation"),
    epsilons: Sequence[float] | None = None,
    protect: Sequence[str] = ("affair",),
    groups: Sequence[str] = ("all",),
    protects: str = "answer",
    settings: dict[str, object] | None = None,
    is_exact: bool = True,
    warnings: Sequence[str] = (),
    untrusted_below: float = 0.0,
    **limits: object,
) -> DecisionDocument:
    """Make a decision among randomised response, with and without correction, and mechanisms of a curator.

    The first of `mechanisms` costs least.
    """
    grid = geometric(0.1, 10.0, 12) if epsilons is None else list(epsilons)
    rng = np.random.default_rng(0)
    others = []
    for number, name in enumerate(mechanisms):
        level = 0.004 * (1 + number)
        runs = [
            {
                "loss": level / epsilon + 0.4 * level * rng.normal(size=39),
                "accuracy": -0.5 * level / epsilon + 0.4 * level * rng.normal(size=39),
            }
            for epsilon in grid
        ]
        kind = "answer" if name in ("noisy-descent", "output-perturbation") else "record"
        others.append(make_compared(name, grid, runs, protects=kind, is_exact=is_exact))
    own = {"label": protect[0], "protect": list(protect)} if settings is None else settings
    asked = {"groups": groups, "epsilons": grid, "warnings": warnings}
    asked |= {"untrusted_below": untrusted_below}
    cost, corrected = (
        LossChangeEstimate(document, tuple(np.empty(0) for _ in document.cells))
        for document in (
            make_whatif(settings=own, **asked),
            scaled(make_whatif(settings={**own, "correction": "forward"}, **asked), 0.8),
        )
    )
    risk = make_risk(epsilons=grid, protect=protect, record_factor=float(len(protect)))
    decision = decide(
        cost,
        RiskCurve(risk, (), np.empty(0, dtype=np.intp)),
        others=others,
        corrected=corrected,
        **{"trust": "curator", "protects": protects, **limits},
    )
    document = decision.document

    def told(answer):
        if answer.epsilon is None:
            return answer
        verb = "randomise" if answer.trust == "nobody" else f"train --mechanism {answer.mechanism}"
        command = f"epsilens {verb} survey.csv --epsilon {answer.epsilon:.10g}"
        return answer.model_copy(update={"command": command})

    return document.model_copy(
        update={
            "recommendation": told(document.recommendation),
            "alternatives": [told(other) for other in document.alternatives],
        }
    )


ALL_OTHERS = tuple(name for name in TITLES if not name.startswith("randomised"))
"""Mechanisms of a curator."""


def make_federation(*, mode: str = "degrade", **changes: object) -> FederationDocument:
    """Make a federation of three sites: trained, site 1 changed after a preview, site 2 left."""
    level = math.inf if mode == "as_printed" else 3.0
    versions = [
        {"operation": "train", "sites": [0, 1, 2], "rounds": 5, "converged": True},
        {"operation": "preview", "sites": [1], "mode": mode, "rung": "one-message"},
        {"operation": "change", "sites": [1], "mode": mode, "rung": "one-message"},
        {"operation": "remove", "sites": [2], "rung": "newton", "advice": "exact"},
    ]
    entries = [(0, "train", None, 3.0), (1, "train", None, 3.0), (1, "preview", mode, 1.0)]
    entries += [(1, "change", mode, 1.0), (2, "train", None, 3.0)]
    known: dict[str, object] = {
        "provenance": Provenance(method="newton", settings={"protect": ["smokes"]}, simulated=True),
        "protect": ["smokes", "region"],
        "n_sites": 3,
        "engine": "flower simulation",
        "carried_messages": 90,
        "carried_bytes": 42000,
        "versions": [
            FederationVersion(
                **{
                    "version": number,
                    "mode": None,
                    "model_epsilon": level if number else 3.0,
                    "model_record_epsilon": 2 * level if number else 6.0,
                    "distance_to_previous": 0.1 * number or None,
                    "predicted_error": 0.01 if number else None,
                    "advice": "accept",
                    "reason": "predicted error 30% of the step. Run `exact` rounds",
                    "test_loss": 0.5 + 0.01 * number,
                    "test_accuracy": 0.7,
                    "messages": 10,
                    "bytes": 3200,
                    "seconds": 0.1,
                    **version,
                }
            )
            for number, version in enumerate(versions)
        ],
        "ledger": [
            FederationEntry(
                site=site,
                operation=operation,
                mode=way,
                epsilon=epsilon,
                record_epsilon=2 * epsilon,
                total_epsilon=math.inf if way == "as_printed" else 6.0,
                private=way != "as_printed",
            )
            for site, operation, way, epsilon in entries
        ],
    }
    return FederationDocument(**{**known, **changes})
