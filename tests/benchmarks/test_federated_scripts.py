# SPDX-License-Identifier: Apache-2.0
"""The federated benchmarks: their truths agree with another solver, and they print what they promise."""

from __future__ import annotations

import math
import sys

import numpy as np
import pandas as pd
import pytest

import datasets
import federated
import federated_remove
import federations
import p2

pytestmark = pytest.mark.filterwarnings("ignore::epsilens.errors.PrivacyLeakWarning")

_COLUMNS = {
    "p2_income": {"WKHP": 5, "SEX": 2, "RAC1P": 3, "PINCP": 2},
    "p2_pubcov": {"SCHL": 5, "AGEP": 3, "SEX": 2, "DIS": 2, "PUBCOV": 2},
    "p2_glioma": {"IDH1": 2, "Age_at_diagnosis": 2, "Race": 3, "Grade": 2},
}


def people(name: str, *, rounds: int = 2, each: int = 60) -> pd.DataFrame:
    """Two rounds of five clients; the last column depends on the others."""
    rng = np.random.default_rng(len(name))
    n = rounds * 5 * each
    table = {
        "round": np.repeat(np.arange(rounds), 5 * each),
        "client": np.tile(np.repeat(np.arange(5), each), rounds),
        "split": np.tile(np.repeat(["train", "test"], [each - 10, 10]), rounds * 5),
        "row": np.tile(np.arange(each), rounds * 5),
    }
    *features, label = _COLUMNS[name]
    score = rng.logistic(size=n)
    for column in features:
        table[column] = rng.integers(0, _COLUMNS[name][column], n)
        score += table[column] - table[column].mean()
    table[label] = (score > 0).astype(int)
    return pd.DataFrame(table)


@pytest.fixture
def generated(monkeypatch):
    params = np.random.default_rng(0).normal(size=(3, 2, 2, 4))

    def load(name, *, folder):
        if name != "p2_results":
            return {"clean": people(name)}
        wanted = {
            level: [w for e, w in p2.PAIRS if (10.0 if e == math.inf else e) == level]
            for level in (1.0, 2.0, 3.0, 4.0, 5.0, 10.0)
        }
        return {
            f"{kind}/{kind}_data_{level}_results.pkl": {
                "normal_params": params[0],
                "change_params": {f"{w:g}": params[1] for w in changes},
                "pert_params": {
                    f"{w:g}": params[1] + 0.5 * (params[0] - params[1]) for w in changes
                },
            }
            for kind in ("adult", "pubcov", "glioma")
            for level, changes in wanted.items()
        }

    monkeypatch.setattr(datasets, "load", load)


def test_every_change_of_table_2_is_quoted():
    for name in p2.DATA:
        assert set(p2.table_2(name)) == set(p2.PAIRS)
    assert len(p2.PAIRS) == 27
    assert p2.table_2("pubcov")[2.0, 0.5] == (0.012, -1.75, 0.252)


def test_published_updates_are_set_against_doing_nothing(generated):
    found = p2.published("glioma", None)
    assert set(found) == set(p2.PAIRS)
    assert found[3.0, 1.0] == pytest.approx(0.5)


def test_retrainings_are_those_of_another_solver(generated):
    sample = p2.samples("income", None, rounds=1)[0]
    coordinator = federations.federate(sample, 3.0, penalty=1e-3, seed=[1])
    records = federations.together(federations.drawn(coordinator))
    X = sample.schema.design(records).matrix
    truth = federations.by_scikit_learn(sample.schema, records, penalty=1e-3)
    # From zeros, and from so far away that the plain step does not come back.
    for start in (np.zeros(3), np.full(3, 30.0)):
        found = federations.minimised(X, sample.schema.labels(records), penalty=1e-3, start=start)
        assert found == pytest.approx(truth, abs=1e-7)
    assert coordinator.theta == pytest.approx(truth, abs=1e-7)
    # Nothing changes at the ε that there is: every degraded retraining is the same model.
    same = federations.retrainings(
        coordinator,
        sample,
        {0: 3.0, 2: 3.0},
        source="degraded",
        draws=2,
        rng=np.random.default_rng(0),
        start=truth,
    )
    assert same == pytest.approx(np.array([truth, truth]), abs=1e-7)


def test_a_ratio_of_means_has_an_error_by_rounds():
    found = federations.ratio_of_means([2.0, 2.0, 4.0], [1.0, 1.0, 1.0], [0, 0, 1])
    assert found.value == pytest.approx(8 / 3)
    # Without a round the ratio is 4 or 2: n − 1 = 1 over n = 2 times the squares around 3.
    assert found.standard_error == pytest.approx(1.0)


def test_the_printed_sign_goes_the_wrong_way(generated):
    sample = p2.samples("pubcov", None, rounds=1)[0]
    found = federated_remove.removed(sample, 1, 5.0, penalty=1e-2, seed=0)["distance"]
    assert found["printed, global H"] > 1.5 * found["nothing"]
    assert found["newton"] < 0.25 * found["nothing"]
    assert found["exact"] < 1e-7


@pytest.mark.slow
def test_both_scripts_print_their_tables(generated, monkeypatch, capsys):
    monkeypatch.setattr(federated_remove, "ROUNDS", 5)
    monkeypatch.setattr(federated, "QUICK_ROUNDS", 5)
    for script in (federated, federated_remove):
        monkeypatch.setattr(script, "DATA", {"glioma": "Glioma"})
    monkeypatch.setattr(sys, "argv", ["bench", "--quick"])
    federated.main()
    federated_remove.main()
    printed = capsys.readouterr().out
    for words in (
        "| ∞ → 0.1 |",
        "| 2 clients |",
        "| 60 % of records |",
        "**Cost**",
        "removals a line",
    ):
        assert words in printed
    for block in printed.split("\n\n"):
        if block.startswith("|"):
            lines = [line for line in block.splitlines() if line.startswith("|")]
            assert len({line.count("|") for line in lines}) == 1
