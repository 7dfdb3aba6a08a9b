# SPDX-License-Identifier: Apache-2.0
"""The study of a network: its last layer over frozen features, or all of it trained again."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from sklearn.base import clone

from epsilens._types import FloatArray, Progress
from epsilens._validate import as_choice, as_positive
from epsilens.data.frames import to_vector
from epsilens.errors import InputError, InputTypeError, PrivacyLeakWarning, setting
from epsilens.influence.baseline import BaselineModel, fit_baseline
from epsilens.influence.question import Asked, Question
from epsilens.models.label import classes_of
from epsilens.models.torch_head import (
    as_columns,
    as_linear_model,
    head_features,
    is_module,
    read_head,
)
from epsilens.models.torch_network import TorchNetwork
from epsilens.notes import Note

if TYPE_CHECKING:
    from epsilens.models.torch_network import Train

Body = Literal["public", "retrained"]
_BODIES = ("public", "retrained")

_FROZEN = Note(
    "frozen-layers",
    "the layers before the head are frozen: what other labels would do to them is not in these "
    "numbers.",
)
_HEAD_ONLY = Note(
    "head-only",
    "these numbers, and whether they are trusted, are about the head alone. They say nothing of a network that "
    "is trained again: there the loss may even change the other way. "
    'WhatIf(module, body="retrained") measures that. So does `calibrate`, with a few '
    "retrainings of yours as `truth`.",
)
BODY_UNDECLARED = Note(
    "body-undeclared",
    "No ε is stated for this network: its body, the layers before the head, may have learnt from the true "
    "answers. Such features give the answers back, whatever answers the head is trained on. If the body never "
    'saw these answers, declare it: WhatIf(module, head=..., body="public"). Otherwise train all of the '
    'network on randomised answers: WhatIf(module, body="retrained").',
)
BODY_PUBLIC = Note(
    "body-public",
    "the body, the layers before the head, was declared public: trained without these answers. Nothing here "
    "checks that. If the body has seen them, ε protects nothing.",
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
    sample_weight: object | None,
    sample_weight_test: object | None,
    progress: Progress | None,
) -> tuple[BaselineModel, FloatArray]:
    """Return a head trained to convergence, and its frozen features; see `WhatIf.fit` for the parameters."""
    layer = read_head(module, head)
    strength = as_positive(regularisation, name="regularisation")
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
    notes = [*baseline.notes, _FROZEN, _HEAD_ONLY]
    if was_training:
        notes.append(
            Note(
                "training-mode",
                "the module was in training mode; its features are taken in evaluation mode, without dropout "
                "and with BatchNorm's running averages.",
            )
        )
    return replace(baseline, label=label, notes=tuple(notes)), features


def refuse_inputs(question: Question, label: str | None) -> Question:
    """Return a question about the label alone; refuse other columns, and groups by expressions.

    The inputs of a network are not columns of its head: randomising one would change every feature.
    """
    protect, groups = question.protect, question.groups
    known = {"label", "y", *([] if label is None else [label])}
    names = None if protect is None else [protect] if isinstance(protect, str) else list(protect)
    if names is not None and not set(names) <= known:
        raise InputError(
            f"with a {setting('head')} only the label can be protected: an input passes through "
            "the frozen layers and has no column of its own in the head. Leave "
            f"{setting('protect')} out, or name {label or 'label'!r}."
        )
    if isinstance(groups, Mapping) and any(isinstance(group, str) for group in groups.values()):
        raise InputError(
            f"with a {setting('head')} groups must be masks over the training records, got an "
            "expression: its columns are not in the head. Give an array of booleans."
        )
    return replace(question, protect=names)


def check_body(body: object, public_body: object) -> None:
    """Refuse declarations of the body that are unknown or contradict each other; warn of the old name."""
    if body is not None:
        as_choice(body, _BODIES, name="body")
    if public_body is None:
        return
    if not isinstance(public_body, bool):
        raise InputTypeError(
            argument="public_body",
            expected="True or False",
            got=type(public_body).__name__,
            hint='It is the old name of body="public".',
        )
    if public_body and body == "retrained":
        raise InputError(
            f"{setting('body', 'retrained')} and {setting('public_body')} contradict each other. "
            "Leave the second out."
        )
    warnings.warn(
        f"`public_body` will be removed. {'Write' if public_body else 'Leave it out, or write'} "
        'body="public" for a body that never saw the answers.',
        FutureWarning,
        stacklevel=3,
    )


def whole_network(estimator: object, X: object, *, train: Train | None = None) -> TorchNetwork:
    """Return the network that is trained again as a whole, for records that come as rows of a table.

    Parameters
    ----------
    estimator : torch.nn.Module or TorchNetwork
        A module is trained with the settings that a `TorchNetwork` has by itself.
    X : tensor, array or table
        The training inputs, whose shape tells that of a record.
    train : callable, optional
        As `TorchNetwork` takes it.
    """
    network = estimator
    if not isinstance(network, TorchNetwork):
        if not is_module(estimator):
            raise InputTypeError(
                f"{setting('body')} is about a torch.nn.Module, got {type(estimator).__name__}. "
                "Leave it out."
            )
        network = TorchNetwork(estimator, train=train)
    elif train is not None:
        raise InputError(f"{setting('train')} belongs into the TorchNetwork. Give it there.")
    shape = np.shape(X)  # type: ignore[call-overload]
    if len(shape) > 2 and network.input_shape is None:
        network = clone(network).set_params(input_shape=tuple(shape[1:]))
    return network


def as_rows(X: object) -> object:
    """Return tensors as arrays, and pictures as the rows of a table."""
    array = as_columns(X)
    if isinstance(array, np.ndarray) and array.ndim > 2:
        return array.reshape(len(array), -1)
    return array


def with_body(asked: Asked, *, is_public: bool) -> Asked:
    """Return a question with what was declared of the body; undeclared, a record's ε is infinite."""
    if is_public:
        return replace(asked, notes=[*asked.notes, BODY_PUBLIC])
    BODY_UNDECLARED.warn(PrivacyLeakWarning, stacklevel=4)
    return replace(
        asked,
        record_epsilons=(math.inf,) * len(asked.record_epsilons),
        notes=[*asked.notes, BODY_UNDECLARED],
    )
