# SPDX-License-Identifier: Apache-2.0
"""The study of a network's last layer: its features frozen, its head the linear model that is asked about."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from epsilens._types import FloatArray, Progress
from epsilens._validate import as_positive
from epsilens.data.frames import to_vector
from epsilens.document import BODY_PUBLIC, BODY_UNDECLARED
from epsilens.errors import InputError, InputTypeError, PrivacyLeakWarning
from epsilens.influence.baseline import Baseline, fit_baseline
from epsilens.influence.question import Asked
from epsilens.models.label import classes_of
from epsilens.models.torch_head import (
    as_columns,
    as_linear_model,
    head_features,
    is_module,
    read_head,
)

__all__ = ["FrozenHead", "fit_head", "refuse_head", "refuse_inputs", "with_body"]

_FROZEN = (
    "the layers before the head are frozen: what other labels would do to them is not in these numbers. A few "
    "retrainings of the whole network, given to `calibrate` as `truth`, say how much that is."
)


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class FrozenHead:
    """A converged head, and the features it was trained on.

    Attributes
    ----------
    baseline : Baseline
    features : array of shape (n, in_features)
    """

    baseline: Baseline
    features: FloatArray


def refuse_head(estimator: object, regularisation: float, *, public_body: object) -> None:
    """Refuse a module without a head, and beside an estimator what belongs to a head."""
    if is_module(estimator):
        raise InputError(
            "a torch module must be given with the name of its last linear layer. Write "
            'WhatIf(module, head="fc").'
        )
    if regularisation != 1.0:
        raise InputError(
            "`regularisation` is for the head of a torch module, and there is no `head`. Set the penalty of "
            "the estimator itself."
        )
    if public_body:
        raise InputError(
            "`public_body` is about the layers before the head of a torch module, and there is no `head`. "
            "Leave it out."
        )


def fit_head(
    module: object,
    head: str,
    X: object,
    y: object,
    X_test: object,
    y_test: object,
    *,
    regularisation: float,
    public_body: object,
    sample_weight: object | None,
    sample_weight_test: object | None,
    progress: Progress | None,
) -> FrozenHead:
    """Train the head to convergence on frozen features; see `WhatIf.fit` for the parameters."""
    layer = read_head(module, head)
    strength = as_positive(regularisation, name="regularisation")
    if not isinstance(public_body, bool):
        raise InputTypeError(
            f"`public_body` must be True or False, got {type(public_body).__name__}. True declares that the "
            "layers before the head were trained without these answers."
        )
    assert is_module(module)  # noqa: S101  (read_head has looked)
    was_training = bool(getattr(module, "training"))  # noqa: B009
    y, y_test = as_columns(y), as_columns(y_test)
    classes = classes_of(y)
    model = as_linear_model(layer, classes, regularisation=strength)
    missing = len(classes) - len(np.unique(to_vector(y)))
    if missing:
        raise InputError(
            f"every class of a head must occur among the training labels, but {missing} do not: their bias "
            "has no finite optimum. Leave these classes out, or train on more records."
        )
    features = head_features(module, head, X, what="training", progress=progress)
    test_features = head_features(module, head, X_test, what="test", progress=progress)
    baseline = fit_baseline(
        model,
        features,
        y,
        test_features,
        y_test,
        sample_weight=as_columns(sample_weight),
        sample_weight_test=as_columns(sample_weight_test),
        given="head",
    )
    label = baseline.label
    if label.origin == "observed" and list(classes) == list(range(len(classes))):
        label = replace(label, origin="given")  # the outputs of the head declare its classes
    notes = [*baseline.notes, _FROZEN]
    if was_training:
        notes.append(
            "the module was in training mode; its features are taken in evaluation mode, without dropout and "
            "with BatchNorm's running averages."
        )
    return FrozenHead(replace(baseline, label=label, notes=tuple(notes)), features)


def refuse_inputs(
    protect: str | Iterable[str] | None, groups: Mapping[str, object] | None, label: str | None
) -> list[str] | None:
    """Return what is protected; refuse anything but the label, and groups by expressions.

    The inputs of a network are not columns of its head: randomising one would change every feature.
    """
    known = {"label", "y", *([] if label is None else [label])}
    names = None if protect is None else [protect] if isinstance(protect, str) else list(protect)
    if names is not None and not set(names) <= known:
        raise InputError(
            "with a `head` only the label can be protected: an input passes through the frozen layers and has "
            f"no column of its own in the head. Leave `protect` out, or name {label or 'label'!r}."
        )
    if isinstance(groups, Mapping) and any(isinstance(group, str) for group in groups.values()):
        raise InputError(
            "with a `head` groups must be masks over the training records, got an expression: its columns are "
            "not in the head. Give an array of booleans."
        )
    return names


def with_body(asked: Asked, *, public_body: bool) -> Asked:
    """Return a question with what was declared of the body; undeclared, a record's ε is infinite."""
    if public_body:
        return replace(asked, notes=[*asked.notes, BODY_PUBLIC])
    warnings.warn(BODY_UNDECLARED, PrivacyLeakWarning, stacklevel=4)
    return replace(
        asked,
        record_epsilons=(math.inf,) * len(asked.record_epsilons),
        notes=[*asked.notes, BODY_UNDECLARED],
    )
