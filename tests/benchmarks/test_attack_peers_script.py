# SPDX-License-Identifier: Apache-2.0
"""The benchmark of membership attacks: its rates, its models, its tables, without the peers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeClassifier

import attack_peers
from attack_peers import Models, Row


@pytest.fixture
def models():
    rng = np.random.default_rng(0)
    members = rng.random((8, 40)) < 0.5
    probability = np.where(members, 1.0, rng.random((8, 40)))
    labels = rng.integers(0, 2, 40)
    return Models(labels, probability[::2], members[::2], probability[1::2], members[1::2])


def test_rates_are_those_of_the_roc_with_ties_accused_together():
    members = np.repeat([True, False], 100)
    scores = np.concatenate([np.arange(100) + 50.0, np.arange(100)])
    auc, at_1, at_01 = attack_peers.rates(scores, members)
    assert auc == pytest.approx(roc_auc_score(members, scores))
    assert (at_1, at_01) == (0.51, 0.5)  # one of 100 outsiders may be accused, then none
    assert attack_peers.rates(np.zeros(200), members) == (0.5, 0.0, 0.0)


def test_a_score_that_is_missing_accuses_nobody():
    members = np.array([True, True, False, False])
    assert attack_peers.rates(np.array([np.nan, np.inf, 0.0, 1.0]), members)[1] == 0.5


def test_models_are_the_same_after_a_file_and_have_both_classes(models, tmp_path):
    models.save(tmp_path / "models.npz")
    again = Models.load(tmp_path / "models.npz")
    np.testing.assert_array_equal(again.target_members, models.target_members)
    both = again.both_classes(again.target[0])
    np.testing.assert_allclose(both.sum(axis=1), 1.0)
    np.testing.assert_array_equal(both[np.arange(40), again.labels], models.target[0])


def test_only_a_forest_is_clipped(models):
    assert list(attack_peers.inputs(models, "boosted trees")) == [attack_peers.AS_THEY_ARE]
    clipped = attack_peers.inputs(models, "random forest")[attack_peers.CLIPPED]
    assert clipped.shadow.max() == 1 - attack_peers.HALF_A_VOTE
    assert models.shadow.max() == 1.0


def test_our_attack_finds_what_a_tree_learnt_by_heart():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    probability, members, _ = attack_peers.train(
        lambda seed: DecisionTreeClassifier(random_state=seed), X, y, 24, seed=0
    )
    found = attack_peers.by_epsilens(np.clip(probability, 0.005, 0.995), members, 3, X)
    assert set(found) == {*attack_peers.OURS, *attack_peers.METHODS, attack_peers.AUTO}
    for method in ("LiRA offline, one spread", attack_peers.AUTO):
        scores, _ = found[method]
        row = attack_peers.as_row(("t", "m", "epsilens", "a", "b"), scores, members[1::2][:3], 1.0)
        assert min(row.auc) > 0.6


def test_a_peer_that_is_not_there_is_named_with_what_to_do(models, tmp_path):
    for name, (_, _, how) in attack_peers.PROGRAMS.items():
        assert how in attack_peers.by_peer(name, models, tmp_path)


def test_the_table_has_ours_fixed_beforehand_the_best_of_the_others_and_the_difference():
    def row(library: str, method: str, rate: float) -> Row:
        each = [rate, rate + 0.1]
        return Row("digits", "random forest", library, method, "as they are", each, each, each, 0.5)

    rows = [
        row("epsilens", "strong", 0.9),
        row("epsilens", attack_peers.AUTO, 0.3),
        row("LeakPro", "LiRA", 0.2),
        row("LeakPro", "RMIA", 0.4),
    ]
    ours, theirs = attack_peers.summary(rows)
    assert (ours["method"], theirs["method"]) == (attack_peers.AUTO, "RMIA")
    assert theirs["ours_minus_this"]["mean"] == pytest.approx(-0.1)
    about = {
        "shadows": 4,
        "targets": 2,
        "missing": {"SACRO-ML": "run `make peers`"},
        "seconds_per_training": {"digits, random forest": 0.2},
    }
    text = attack_peers.markdown(rows, about)
    assert "-0.100 ± 0.000" in text
    assert "SACRO-ML is not in these tables: run `make peers`." in text
    assert text.count("| epsilens | strong |") == 1
