# SPDX-License-Identifier: Apache-2.0
"""A small document of every kind, for examples and tests."""

from __future__ import annotations

from typing import Any

from epsilens.document.decision import MechanismCurve
from epsilens.document.kinds import MODELS, Document, DocumentKind
from epsilens.document.parts import Baseline
from epsilens.document.risk import RiskDocument
from epsilens.document.whatif import WhatIfDocument
from epsilens.errors import InputError

_START = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
_WHATIF = {
    "kind": "whatif",
    "provenance": {"method": "exact"},
    "baseline": _START,
    "cells": [
        {
            "group": "all",
            "epsilon": epsilon,
            "record_epsilon": epsilon,
            "method": "exact",
            "loss_change": change,
            "loss_change_low": change - 0.01,
            "loss_change_high": change + 0.01,
        }
        for epsilon, change in ((1.0, 0.04), (2.0, 0.01))
    ],
}
_RISK = {
    "kind": "risk",
    "provenance": {"method": "shadow models"},
    "n_models": 256,
    "n_targets": 75,
    "protect": ["smokes"],
    "n_answers": [2],
    "cells": [
        {
            "epsilon": epsilon,
            "record_epsilon": epsilon,
            "mechanism": "rr",
            "advantage": advantage,
            "answer_inference_rate": 0.72,
            "answer_inference_low": 0.71,
            "answer_inference_high": 0.73,
            "holder_rate": holder,
            "holder_rate_low": holder - 0.01,
            "holder_rate_high": holder + 0.01,
            "answer_inference_baseline": 0.72,
            "answer_inference_baseline_high": 0.73,
            "answer_inference_ceiling": ceiling,
        }
        for epsilon, advantage, holder, ceiling in (
            (1.0, 0.462, 0.79, 0.855),
            (2.0, 0.762, 0.89, 0.936),
        )
    ],
}
_CONTENTS: dict[str, dict[str, Any]] = {
    "whatif": _WHATIF,
    "risk": _RISK,
    "decision": {
        "provenance": {"method": "decision"},
        "cost": _WHATIF,
        "risk": _RISK,
        "recommendation": {
            "epsilon": 1.0,
            "holds": True,
            "sentence": "Use ε = 1.",
            "rule": "max_loss_increase",
            "confidence": 0.9,
            "advantage": 0.462,
            "attack_rate_ceiling": 0.855,
            "max_loss_increase": 0.05,
        },
    },
    "release": {
        "provenance": {"method": "randomised response"},
        "columns": ["smokes"],
        "epsilon": {"smokes": 1.0},
        "record_epsilon": 1.0,
        "rows": 100,
        "simulated": False,
        "mechanism": "randomised response",
    },
    "training": {
        "provenance": {"method": "noisy-descent"},
        "mechanism": "noisy-descent",
        "model": "logistic",
        "trust": "curator",
        "protects": "answer",
        "neighbours": "one answer is replaced",
        "label": "smokes",
        "columns": ["smokes"],
        "epsilon": 1.0,
        "delta": 1e-6,
        "rho": 0.028,
        "mu": 0.2367,
        "sigma": 16.9,
        "advantage": 0.0942,
        "x_bound": 4.0,
        "n_steps": 120,
        "rows": 100,
        "time": "2026-01-31T12:00:00Z",
        "simulated": False,
        "total": {"epsilon": 1.0, "delta": 1e-6, "advantage": 0.0942, "n_releases": 1},
    },
    "inspect": {
        "provenance": {"method": "inspect"},
        "rows": 100,
        "columns": [
            {
                "name": "smokes",
                "kind": "binary",
                "n_distinct": 2,
                "n_missing": 0,
                "protectable": True,
                "categories": ["no", "yes"],
            }
        ],
    },
    "value": {
        "provenance": {"method": "exact"},
        "baseline": _START,
        "scored": "training",
        "n": 75,
        "mean": 1e-4,
        "harmful": 30,
        "total": 7.5e-3,
    },
    "audit": {
        "provenance": {"method": "approximate"},
        "mechanism": "gaussian-sum",
        "epsilon_lower_bound": 1.1,
        "confidence": 0.95,
        "method": "approximate",
        "selection": "path",
        "is_confidence_bound": True,
        "assumptions": ["(epsilon, delta)-differential privacy"],
        "claimed_epsilon": 4.0,
        "claimed_delta": 1e-6,
        "true_epsilon": 4.0,
        "is_broken": False,
        "verdict": "no evidence of a breach",
        "n_canaries": 1000,
        "n_guesses": 86,
        "n_correct": 74,
    },
    "mask": {
        "provenance": {"method": "shap"},
        "kept": ["age"],
        "masked": ["gait"],
        "alpha": 0.2,
        "utility_kept": 0.98,
        "privacy_kept": 0.79,
        "solver": "exact",
    },
    "federation": {
        "provenance": {"method": "newton"},
        "protect": ["smokes"],
        "n_sites": 2,
        "versions": [
            {
                "version": 0,
                "operation": "train",
                "mode": None,
                "sites": [0, 1],
                "model_epsilon": 3.0,
                "model_record_epsilon": 3.0,
                "advice": "accept",
                "messages": 20,
                "bytes": 3200,
            }
        ],
    },
}


def example_document(kind: DocumentKind, **changes: object) -> Document:
    """Return a small valid document, for examples and tests.

    Parameters
    ----------
    kind : {"whatif", "release", "inspect", "value", "audit", "risk", "decision", "mask", "federation", "training"}
        The kind of document.
    **changes
        Fields that are to be different.

    Returns
    -------
    Document
        About 75 training records and the protected answer "smokes", at ε = 1 and 2.

    Examples
    --------
    >>> example_document("whatif").cells[0].loss_change
    0.04
    >>> example_document("release", rows=50).rows
    50
    """
    if kind not in MODELS:
        raise InputError(f"`kind` must be one of {', '.join(MODELS)}, got {kind!r}.")
    content = _CONTENTS[kind] | changes
    if kind == "decision" and "mechanisms" not in changes:
        cost = WhatIfDocument.model_validate(content["cost"])
        risk = RiskDocument.model_validate(content["risk"])
        content["mechanisms"] = [MechanismCurve.of_randomised_response(cost, risk)]
    return MODELS[kind].model_validate(content)
