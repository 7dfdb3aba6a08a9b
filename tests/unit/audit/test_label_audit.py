# SPDX-License-Identifier: Apache-2.0
"""The audit of labels that needs no canaries: how often it errs, what it finds, what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from epsilens.audit import audit_labels
from epsilens.channels import RandomizedResponse
from epsilens.errors import InputError


def people(seed, n=1000, k=3):
    """Return how likely each label is for everybody, and labels that are drawn so."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(k, 0.7), size=n)
    labels = (law.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).clip(max=k - 1)
    return rng, law, labels


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::epsilens.errors.PrivacyLeakWarning")
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_randomised_labels_keep_their_epsilon(epsilon):
    """With the true law the bound is above ε in five of a hundred audits at most."""
    n, above, channel = 200, 0, RandomizedResponse(3, epsilon)
    for seed in range(n):
        rng, law, labels = people(seed)
        released = channel.perturb(labels, random_state=int(rng.integers(2**31)))
        found = audit_labels(labels, np.eye(3)[released], law, random_state=seed)
        above += found.epsilon_lower_bound > epsilon
    assert above <= 0.05 * n + 2.0 * math.sqrt(0.05 * 0.95 * n)


@pytest.mark.filterwarnings("ignore::epsilens.errors.PrivacyLeakWarning")
def test_labels_that_are_released_as_they_are_are_found():
    _, law, labels = people(1)
    found = audit_labels(labels, np.eye(3)[labels], law, claimed_epsilon=1.0, random_state=0)
    assert found.is_broken
    assert found.bound.assumptions[-2:] == [
        "labels that are independent given the features",
        "the likely labels follow the true law",
    ]
    assert found.document.kind == "audit"


def test_a_model_that_learnt_its_labels_by_heart_is_found():
    """More columns than records: the model repeats the labels that it was trained on."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 400))
    labels = rng.integers(0, 2, 300)
    model = LogisticRegression(C=100.0, max_iter=500).fit(X, labels)
    likely = np.full((300, 2), 0.5)
    asked = {"claimed_epsilon": 1.0, "random_state": 0}
    assert audit_labels(labels, model.predict_proba(X), likely, **asked).is_broken
    others = rng.integers(0, 2, 300)
    assert not audit_labels(others, model.predict_proba(X), likely, **asked).is_broken


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": np.zeros(9, dtype=int)}, "one for each row"),
        ({"labels": np.full(10, 3)}, "codes from 0 to 2"),
        ({"labels": np.zeros(10)}, "must be codes"),
        ({"likely": np.full((10, 3), 0.5)}, "add up to 1"),
        ({"probabilities": np.full((10, 3), np.nan)}, "add up to 1"),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    given = {
        "labels": np.zeros(10, dtype=int),
        "probabilities": np.full((10, 3), 1 / 3),
        "likely": np.full((10, 3), 1 / 3),
    } | change
    with pytest.raises(InputError, match=words):
        audit_labels(**given)


def test_a_control_refuses_likely_labels_that_are_off():
    """The released probabilities are the true law: nothing is given away, whatever `likely` says."""
    rng = np.random.default_rng(0)

    def records(n=2000):
        true = rng.uniform(0.05, 0.95, n)
        labels = (rng.random(n) < true).astype(int)
        return labels, np.c_[1 - true, true], np.c_[1 - 0.5 * true, 0.5 * true]

    labels, law, off = records()
    assert audit_labels(labels, law, off, claimed_epsilon=0.2, random_state=0).is_broken
    with pytest.raises(InputError, match="the release never used"):
        audit_labels(labels, law, off, control=records(), claimed_epsilon=0.2, random_state=0)
    control = records()
    found = audit_labels(
        labels, law, law, control=(control[0], control[1], control[1]), random_state=0
    )
    assert found.epsilon_lower_bound == 0.0
    assert found.document.number_types["epsilon_lower_bound"] == "estimated"


@pytest.mark.parametrize(
    "wrong", [(5, np.ones((1, 2)), np.ones((1, 2))), ([0, 1], [0.5, 0.5], 0.5)]
)
def test_what_is_no_table_is_refused(wrong):
    with pytest.raises(InputError):
        audit_labels(*wrong)
