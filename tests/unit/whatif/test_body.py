# SPDX-License-Identifier: Apache-2.0
"""A network whose body has learnt the true answers gives them back, whatever its head was trained on."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from epsilens import WhatIf
from epsilens.channels import RandomizedResponse, simulate
from epsilens.decision import decide
from epsilens.document import (
    Provenance,
    anonymise,
    example_document,
    load_document,
    to_json,
)
from epsilens.errors import ApproximationWarning, InputError, PrivacyLeakWarning
from epsilens.models import TorchNetwork
from epsilens.risk import RiskCurve
from epsilens.show import write_report

torch = pytest.importorskip("torch")
nn = torch.nn
N = 200
EPSILON = 0.5


@pytest.fixture(scope="module")
def people() -> tuple[np.ndarray, np.ndarray]:
    """Twice N people whose answer has nothing to do with their features."""
    rng = np.random.default_rng(4)
    return rng.normal(size=(2 * N, 20)), rng.integers(0, 2, 2 * N)


@pytest.fixture(scope="module")
def network(people) -> nn.Module:
    """A network that has learnt the true answers of the first N by heart."""
    X, y = people
    torch.manual_seed(0)
    body = [nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 2), nn.Tanh()]
    module = nn.Sequential(*body, nn.Linear(2, 2)).double()
    optimiser = torch.optim.Adam(module.parameters(), lr=0.03)
    inputs, answers = torch.from_numpy(X[:N]), torch.from_numpy(y[:N])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # several would wait for one another
    for _ in range(300):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(inputs), answers).backward()
        optimiser.step()
    torch.set_num_threads(threads)
    return module.eval()


def share_read_back(network: nn.Module, X: np.ndarray, y: np.ndarray) -> float:
    """Train the head on randomised answers, publish body and head, and let the network guess."""
    with torch.no_grad():
        features = network[:-1](torch.from_numpy(X)).numpy()
    randomised = simulate(RandomizedResponse(2, EPSILON), y, np.random.default_rng(1))
    head = LogisticRegression().fit(features, randomised)
    return float((head.predict(features) == y).mean())


def test_the_answers_that_a_body_has_learnt_are_read_back(network, people):
    X, y = people
    ceiling = math.exp(EPSILON) / (1 + math.exp(EPSILON))
    assert share_read_back(network, X[:N], y[:N]) >= 0.99
    # Answers that the body never saw: within the ceiling, 0.62, and 3 standard errors of 0.035.
    assert share_read_back(network, X[N:], y[N:]) <= ceiling + 3 * math.sqrt(0.25 / N)


def first_component(features: np.ndarray) -> np.ndarray:
    """Return which side of the mean every record is on, along the widest direction of the features."""
    centred = features - features.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][0] > 0


def features_of(module: nn.Module, X: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return module[:-1](torch.from_numpy(X)).numpy()


def test_the_widest_direction_of_published_features_is_the_answer(network, people):
    """Nothing but the body is needed, so no ε of the head could help. Chance is 0.5 ± 0.035."""
    X, y = people

    def share(sides: np.ndarray, answers: np.ndarray) -> float:
        right = float((sides == answers).mean())
        return max(right, 1.0 - right)  # which side is "yes" is one bit

    assert share(first_component(features_of(network, X[:N])), y[:N]) >= 0.99
    assert share(first_component(features_of(network, X[N:])), y[N:]) <= 0.62
    # The same network, all of it trained on randomised answers: within the ceiling of ε = 0.5.
    randomised = simulate(RandomizedResponse(2, EPSILON), y[:N], np.random.default_rng(1))
    settings = {"epochs": 300, "batch": N, "learning_rate": 0.03, "random_state": 0}
    whole = TorchNetwork(network, **settings).fit(X[:N], randomised)
    assert whole.score(X[:N], randomised) >= 0.99
    ceiling = math.exp(EPSILON) / (1 + math.exp(EPSILON)) + 3 * math.sqrt(0.25 / N)
    assert share(first_component(features_of(whole.module_, X[:N])), y[:N]) <= ceiling
    assert float((whole.predict(X[:N]) == y[:N]).mean()) <= ceiling


def study_of(network, people, **settings) -> WhatIf:
    X, y = people
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)  # the head was never converged
        return WhatIf(network, head="4", **settings).fit(X[:N], y[:N], X[N:], y[N:])


@pytest.fixture(scope="module")
def undeclared(network, people):
    study = study_of(network, people)
    with pytest.warns(PrivacyLeakWarning, match=r'No ε is stated .* body="public"'):
        return study.estimate(epsilon=[0.5, 1.0, 2.0], method="newton")


def test_without_the_declaration_no_epsilon_is_stated(undeclared, build, tmp_path):
    frame = undeclared.to_frame()
    assert frame["epsilon"].tolist() == [0.5, 1.0, 2.0]
    assert frame["record_epsilon"].tolist() == [math.inf] * 3
    document = undeclared.document
    assert document.provenance.settings["body"] == "undeclared"
    assert not {"epsilon", "record_epsilon"} & set(document.number_types)
    assert any("No ε is stated" in note for note in document.warnings)
    assert "No ε is stated" in undeclared._repr_html_()
    assert any(
        "No ε is stated" in line for line in undeclared.plot().to_dict()["title"]["subtitle"]
    )
    for refused in (
        lambda: undeclared.choose(max_loss_increase=1.0),
        lambda: decide(
            undeclared, RiskCurve(build.make_risk(), (), np.arange(0)), max_loss_increase=1.0
        ),
        lambda: write_report(document, tmp_path / "report.html"),
        lambda: write_report(load_document(to_json(anonymise(document))), tmp_path / "r.html"),
    ):
        with pytest.raises(InputError, match=r'no ε is stated .* body="public".* body="retrained"'):
            refused()
    assert list(tmp_path.iterdir()) == []
    assert any("No ε is stated" in note for note in anonymise(document).warnings)


@pytest.mark.parametrize(
    ("settings", "body", "is_private"),
    [
        ({"public_body": False}, "undeclared", False),
        ({"public_body": True}, "public", True),
        ({"body": "undeclared"}, "undeclared", False),
        ({"body": None}, "undeclared", False),
        ({"body": "something new"}, "undeclared", False),
        ({"body": "public"}, "public", True),
        ({"body": "retrained"}, "retrained", True),
        ({}, None, True),
    ],
)
def test_documents_of_before_are_read_and_what_is_not_known_is_not_declared(
    settings, body, is_private
):
    origin = Provenance(method="exact", settings=settings)
    document = load_document(to_json(example_document("whatif", provenance=origin)))
    assert (document.body, document.is_about_privacy) == (body, is_private)
    assert document.is_about_head == (body in {"public", "undeclared"})
    assert anonymise(document).body == body


def test_retraining_says_it_too(network, people):
    study = study_of(network, people)
    with pytest.warns(PrivacyLeakWarning, match="No ε is stated"):
        result = study.retrain(epsilon=1.0, repeats=2)
    assert result.to_frame()["record_epsilon"].tolist() == [math.inf]
    with pytest.raises(InputError, match='body="public"'):
        result.choose(max_loss_increase=1.0)


def test_a_line_to_the_whole_network_can_be_fitted_without_the_declaration(network, people):
    study = study_of(network, people)
    with pytest.warns(PrivacyLeakWarning, match="No ε is stated"):
        line = study.calibrate(epsilon=[0.5, 1.0, 2.0, 4.0], repeats=2)
    assert line.n_cells == 4


def test_with_the_declaration_it_is_as_before_and_the_report_says_what_was_declared(
    network, people, tmp_path, monkeypatch
):
    monkeypatch.setattr("epsilens.show.report.chart_library", str)  # takes seconds
    X, y = people
    # The other half: the body never saw these answers.
    study = study_of(network, (np.flip(X, 0).copy(), np.flip(y).copy()), body="public")
    result = study.estimate(epsilon=[0.5, 1.0, 2.0], method="newton")
    assert result.to_frame()["record_epsilon"].tolist() == [0.5, 1.0, 2.0]
    assert result.document.number_types["record_epsilon"] == "proven"
    assert result.choose(max_loss_increase=1.0).epsilon == 0.5
    page = write_report(result.document, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "was declared public: trained without these answers" in page
    assert "No ε is stated" not in page
    assert "say nothing of a network that is trained again" in page
    assert "trusted (head only)" in page


@pytest.mark.parametrize("body", ["retrained", None])
def test_a_network_trained_on_randomised_answers_alone_has_an_epsilon(network, people, body):
    X, y = people
    estimator = network if body else TorchNetwork(network, epochs=2, random_state=0)
    study = WhatIf(estimator, body=body).fit(X[:N], y[:N], X[N:], y[N:])
    result = study.estimate(epsilon=[0.5, 2.0], categories={"label": [0, 1]}, seconds=2.0)
    assert result.document.body == "retrained"
    assert result.to_frame()["record_epsilon"].tolist() == [0.5, 2.0]
    assert result.document.number_types["record_epsilon"] == "proven"
    assert not {"head-only", "body-undeclared"} & {note.code for note in result.document.notes}
