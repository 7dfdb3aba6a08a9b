# SPDX-License-Identifier: Apache-2.0
"""Noisy descent and output perturbation as mechanisms: what a preview says is what real fits show."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from epsilens.errors import InputError
from epsilens.mechanisms import mechanism_class
from epsilens.mechanisms.noisy_descent import NoisyDescent
from epsilens.mechanisms.output_perturbation import OutputPerturbation
from epsilens.mechanisms.protocol import Task
from epsilens.private import PrivateLogisticRegression

BOTH = (NoisyDescent, OutputPerturbation)


@pytest.fixture(scope="module")
def task(small_task) -> Task:
    return small_task(600)


@pytest.fixture(scope="module")
def three(task) -> Task:
    """The same with three classes."""
    older = task.X[:, 0] > 0.5, task.X_test[:, 0] > 0.5
    return dataclasses.replace(
        task, y=task.y + older[0] * task.y, y_test=task.y_test + older[1] * task.y_test, n_classes=3
    )


def plan(kind, task, *, epsilon=1.0, protects="record"):
    return kind.plan(task, epsilon=epsilon, delta=1e-5, protects=protects)


def test_they_are_found_by_name():
    assert mechanism_class("noisy-descent") is NoisyDescent
    assert mechanism_class("output-perturbation") is OutputPerturbation
    with pytest.raises(InputError, match="'noisy-descent', 'output-perturbation'"):
        mechanism_class("descent")


@pytest.mark.parametrize("kind", BOTH)
def test_a_plan_looks_at_the_number_of_records_alone(kind, task):
    other = dataclasses.replace(task, X=100.0 * task.X, y=1 - task.y)
    assert plan(kind, task) == plan(kind, other)


def test_the_advantage_is_that_of_normal_noise_about_a_replaced_record(task):
    for kind in BOTH:
        assert plan(kind, task).advantage == pytest.approx(0.1066, abs=1e-4)
        assert plan(kind, task, protects="answer").advantage == plan(kind, task).advantage


def sigma(one):
    return one.descent.release.sigma if isinstance(one, NoisyDescent) else one.noise.sigma


@pytest.mark.parametrize("kind", BOTH)
def test_a_protected_feature_is_hidden_as_a_replaced_record(kind, task):
    feature = dataclasses.replace(task, protected=("age",))
    assert sigma(plan(kind, feature, protects="answer")) == sigma(plan(kind, task))
    assert sigma(plan(kind, task, protects="answer")) < sigma(plan(kind, task))
    assert plan(kind, feature, protects="answer").protects == "answer"


def losses(task, chances):
    return -np.log(chances[np.arange(len(task.y_test)), task.y_test]).mean(axis=0)


@pytest.mark.filterwarnings("ignore::epsilens.errors.PrivacyLeakWarning")
@pytest.mark.parametrize(
    ("kind", "protects", "n_classes"),
    [
        (NoisyDescent, "record", 2),
        (NoisyDescent, "answer", 3),
        (OutputPerturbation, "record", 2),
        (OutputPerturbation, "answer", 3),
    ],
)
def test_a_preview_is_what_real_fits_show(kind, protects, n_classes, task, three):
    """40 fits with noise of the operating system; four standard errors: fails by chance below 1e-4."""
    task = task if n_classes == 2 else three
    planned = plan(kind, task, protects=protects)
    if isinstance(planned, NoisyDescent):
        # A few steps, for noise of the operating system takes its time.
        planned = dataclasses.replace(
            planned, descent=dataclasses.replace(planned.descent, n_steps=20)
        )
    [found] = kind.preview(task, [planned], generator=np.random.default_rng(1))
    model = PrivateLogisticRegression(
        epsilon=1.0,
        delta=1e-5,
        x_bound=task.x_bound,
        protects=protects,
        classes=range(n_classes),
        mechanism=kind.name,
        n_steps=20,
    )
    real = np.array(
        [losses(task, model.fit(task.X, task.y).predict_proba(task.X_test)) for _ in range(40)]
    )
    simulated = found.changes["loss"] + task.baseline.loss
    error = math.hypot(real.std(ddof=1) / math.sqrt(40), simulated.std(ddof=1) / math.sqrt(39))
    assert abs(real.mean() - simulated.mean()) < 4 * error
    assert json.loads(json.dumps(model.receipt_)) == model.receipt_
    assert model.sigma_ == sigma(planned)
    assert model.advantage_ == pytest.approx(found.cell.advantage)


@pytest.mark.parametrize("kind", BOTH)
def test_shadow_models_learn_from_their_members_alone(kind, task):
    """Labels of nobody's records change no prediction."""
    members = np.random.default_rng(1).random((len(task.y), 4)) < 0.5
    members[:100] = False
    other = task.y.copy()
    other[:100] = 1 - other[:100]
    first, second = (
        next(
            kind.simulate(
                dataclasses.replace(task, y=y),
                [plan(kind, task)],
                n_runs=4,
                generator=np.random.default_rng(2),
                members=members,
            )
        ).probabilities("train")
        for y in (task.y, other)
    )
    assert first == pytest.approx(second, abs=1e-6)
    assert first.shape == (len(task.y), 2, 4)
    assert np.abs(first[:, :, 0] - first[:, :, 1]).max() > 1e-3


@pytest.mark.parametrize("kind", BOTH)
def test_progress_and_the_time_it_takes_are_told(kind, task):
    told = []
    kind.preview(
        task,
        [plan(kind, task)],
        n_runs=2,
        generator=np.random.default_rng(0),
        progress=lambda *done: told.append(done),
    )
    assert told[-1][0] == told[-1][1]
    assert 0 < kind.expected_seconds(task, 8) < 2
