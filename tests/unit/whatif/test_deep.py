# SPDX-License-Identifier: Apache-2.0
"""`WhatIf(module, head=...)`: the last layer against really training it again."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from epsilens import WhatIf
from epsilens.document import view
from epsilens.errors import ApproximationWarning, InputError, InputTypeError
from epsilens.models import TorchNetwork

torch = pytest.importorskip("torch")
nn = torch.nn
N = 240


def network(n_outputs: int, *, convolves: bool = False, bias: bool = True) -> nn.Module:
    torch.manual_seed(0)
    if convolves:
        before = [nn.Conv2d(1, 2, 3), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten()]
    else:
        before = [nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Dropout(0.2)]
    return nn.Sequential(*before, nn.Linear(8, n_outputs, bias=bias)).double()


def people(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2 * N, 1, 6, 6))
    score = X[:, 0, :2, :n_classes].sum(axis=1) + 1.5 * rng.gumbel(size=(2 * N, n_classes))
    return X, score.argmax(axis=1)


def study_of(module: nn.Module, n_classes: int, **settings: object) -> WhatIf:
    X, y = people(n_classes)
    study = WhatIf(module, head="4", **{"body": "public", **settings})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)  # the head was never trained
        return study.fit(torch.from_numpy(X[:N]), torch.from_numpy(y[:N]), X[N:], y[N:])


def soft_labels(module: nn.Module, rows: np.ndarray) -> torch.Tensor:
    """What the outputs are trained towards, from a distribution over the classes."""
    return torch.from_numpy(rows if module[-1].out_features > 1 else rows[:, 1:])


def refit(module: nn.Module, X: np.ndarray, target: torch.Tensor, strength: float) -> nn.Linear:
    """Train the last layer again by torch's own LBFGS, to the last digits: the slow twin."""
    module.eval()
    with torch.no_grad():
        features = module[:-1](torch.from_numpy(X))
    head = nn.Linear(8, module[-1].out_features, bias=module[-1].bias is not None).double()
    optimiser = torch.optim.LBFGS(
        head.parameters(),
        max_iter=2000,
        tolerance_grad=1e-12,
        tolerance_change=0,
        history_size=40,
        line_search_fn="strong_wolfe",
    )

    def objective() -> torch.Tensor:
        optimiser.zero_grad()
        value = loss_of(head(features), target).sum() + (head.weight**2).sum() / (2 * strength)
        value.backward()
        return value

    optimiser.step(objective)
    return head


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    if output.shape[1] == 1:
        losses = nn.functional.binary_cross_entropy_with_logits(output, target, reduction="none")
        return losses[:, 0]
    return nn.functional.cross_entropy(output, target, reduction="none")


def loss_at(module: nn.Module, head: nn.Linear, X: np.ndarray, target: torch.Tensor) -> float:
    with torch.no_grad():
        return float(loss_of(head(module[:-1](torch.from_numpy(X))), target).mean())


HEADS = {
    "softmax": (3, {"n_outputs": 3}),
    "one logit": (2, {"n_outputs": 1}),
    "two outputs": (2, {"n_outputs": 2, "convolves": True}),
    "no bias": (3, {"n_outputs": 3, "bias": False}),
}


@pytest.mark.parametrize("kind", HEADS)
def test_the_estimate_is_the_slope_of_really_training_the_head_again(kind):
    """First order is −ηᵀH⁻¹γ: a difference quotient of refits on expected labels has that limit."""
    n_classes, settings = HEADS[kind]
    module = network(**settings)
    X, y = people(n_classes)
    study = study_of(module, n_classes, regularisation=0.7)
    onehot = np.eye(n_classes)[y]
    test = soft_labels(module, onehot[N:])

    def loss(channel: np.ndarray) -> float:
        rows = onehot[:N] @ channel
        return loss_at(module, refit(module, X[:N], soft_labels(module, rows), 0.7), X[N:], test)

    here = loss(np.eye(n_classes))
    assert study.baseline_.outcomes.loss == pytest.approx(here, abs=1e-9)
    # Two opposite small channels: what is left is of third order, 1e-7 of the change.
    t = 1e-3
    step = t * (np.ones((n_classes, n_classes)) - n_classes * np.eye(n_classes))
    slope = (loss(np.eye(n_classes) + step) - loss(np.eye(n_classes) - step)) / (2 * t)
    epsilon = 0.8
    lie = 1.0 / (n_classes - 1 + np.exp(epsilon))
    first = study.estimate(epsilon=epsilon, method="influence").to_frame()["loss_change"][0]
    assert first == pytest.approx(slope * lie, rel=0, abs=1e-6)
    truth = study.retrain(epsilon=epsilon, repeats=200).to_frame().iloc[0]
    exact = study.estimate(epsilon=epsilon, method="exact").to_frame().iloc[0]
    # Of 200 runs the mean is off by a standard error of about (high − low)/3.3/√200.
    width = (truth["loss_change_high"] - truth["loss_change_low"]) / 3.3 / np.sqrt(200)
    assert exact["loss_change"] == pytest.approx(truth["loss_change"], abs=4 * width)


def test_the_converged_head_is_that_of_scikit_learn_on_the_features():
    module = network(3)
    X, y = people(3)
    study = study_of(module, 3, regularisation=0.3)
    module.eval()
    with torch.no_grad():
        features = module[:-1](torch.from_numpy(X[:N])).numpy()
    model = LogisticRegression(C=0.3, tol=1e-12, max_iter=10_000).fit(features, y[:N])
    np.testing.assert_allclose(study.coef_, model.coef_, atol=1e-6)
    np.testing.assert_allclose(
        study.intercept_ - study.intercept_.mean(),
        model.intercept_ - model.intercept_.mean(),
        atol=1e-6,
    )
    # Everything else is that of the linear model on the features.
    with torch.no_grad():
        test_features = module[:-1](torch.from_numpy(X[N:])).numpy()
    plain = WhatIf(LogisticRegression(C=0.3)).fit(features, y[:N], test_features, y[N:])
    ours, theirs = (
        one.estimate(
            epsilon=[0.5, 3.0], method="newton", categories={"label": [0, 1, 2]}
        ).to_frame()
        for one in (study, plain)
    )
    pd.testing.assert_frame_equal(ours, theirs)
    np.testing.assert_allclose(
        study.point_table().contributions,
        plain.point_table(categories={"label": [0, 1, 2]}).contributions,
        rtol=1e-9,
        atol=1e-12,
    )


def test_what_is_said_of_a_head():
    module = network(3).train()
    X, y = people(3)
    with pytest.warns(ApproximationWarning, match="the given head is not converged: its test loss"):
        study = WhatIf(module, head="4", body="public").fit(X[:N], y[:N], X[N:], y[N:])
    result = study.estimate(epsilon=1.0)
    said = " ".join(result.document.warnings)
    for words in ("the given head", "frozen", "was in training mode", "was declared public"):
        assert words in said
    # Whether a cell is trusted is about the head, wherever it is shown.
    (note,) = [note for note in result.document.notes if note.code == "head-only"]
    assert "say nothing of a network that is trained again" in note.text
    assert note.severity == "warning"
    assert view(result.document).tables[0].lines[0]["trusted"].title == "trusted (head only)"
    assert "trusted (head only)" in result._repr_html_()
    assert result.document.provenance.settings["estimator"] == "Sequential.4"
    # A head that is converged is not spoken of.
    with torch.no_grad():
        module[-1].weight[:] = torch.from_numpy(study.coef_)
        module[-1].bias[:] = torch.from_numpy(study.intercept_)
    again = WhatIf(module.eval(), head="4").fit(X[:N], y[:N], X[N:], y[N:])
    assert not any("given head" in note.text for note in again.baseline_.notes)


def test_a_study_of_a_module_can_be_cloned():
    study = WhatIf(network(3), head="4", regularisation=2.0)
    assert set(study.get_params()) == {
        *("estimator", "head", "regularisation"),
        *("body", "train", "public_body"),
    }
    again = clone(study)
    assert again.head == "4"
    assert again.regularisation == 2.0
    assert again.estimator is not study.estimator
    assert "head='4'" in repr(study)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"protect": "age"}, "only the label can be protected"),
        ({"protect": ["label", "x0"]}, "only the label can be protected"),
        ({"groups": {"old": "x0 > 1"}}, "groups must be masks"),
    ],
)
def test_inputs_have_no_meaning_in_the_head(asked, words):
    study = study_of(network(3), 3)
    with pytest.raises(InputError, match=words):
        study.estimate(epsilon=1.0, **asked)
    with pytest.raises(InputError, match=words):
        study.retrain(epsilon=1.0, **asked)
    groups = {"some": np.arange(N) < 100}
    assert len(study.estimate(epsilon=1.0, protect="label", groups=groups).to_frame()) == 1


def test_what_does_not_fit_together_is_refused():
    X, y = people(3)
    data = (X[:N], y[:N], X[N:], y[N:])
    with pytest.raises(InputError, match=r'WhatIf\(module, head="fc"\)'):
        WhatIf(network(3)).fit(*data)
    with pytest.raises(InputError, match=r"for a torch.nn.Module, got LogisticRegression"):
        WhatIf(LogisticRegression(), head="4").fit(*data)
    with pytest.raises(InputError, match="there is no `head`"):
        WhatIf(LogisticRegression(), regularisation=2.0).fit(X[:N, 0, 0], y[:N], X[N:, 0, 0], y[N:])
    rows = (X[:N, 0, 0], y[:N], X[N:, 0, 0], y[N:])
    with pytest.raises(InputError, match=r"`body='public'` .* there is no `head`"):
        WhatIf(LogisticRegression(), body="public").fit(*rows)
    with pytest.raises(InputTypeError, match=r"for a torch\.nn\.Module|about a torch\.nn\.Module"):
        WhatIf(LogisticRegression(), body="retrained").fit(*rows)
    with pytest.raises(InputError, match="`body` must be one of 'public', 'retrained', got 'mine'"):
        WhatIf(network(3), head="4", body="mine").fit(*data)
    with pytest.raises(InputError, match="`train` is for `body='retrained'`"):
        WhatIf(LogisticRegression(), train=print).fit(*rows)
    with pytest.raises(InputError, match="`train` belongs into the TorchNetwork"):
        WhatIf(TorchNetwork(network(3)), train=print).fit(*data)
    with pytest.raises(InputError, match="`regularisation` is for the head"):
        WhatIf(network(3), body="retrained", regularisation=2.0).fit(*data)
    with pytest.raises(InputError, match=r"`body` is for a torch module, .* Use `fit`"):
        WhatIf(network(3), body="retrained").fit_parquet("people.parquet", label="y")
    with pytest.raises(InputError, match="got 5 outputs and labels of 3 classes"):
        WhatIf(network(5), head="4").fit(*data)
    missing = pd.Series(pd.Categorical(y[:N], categories=range(4)))
    with pytest.raises(InputError, match="every class of a head must occur"):
        WhatIf(network(4), head="4").fit(X[:N], missing, X[N:], y[N:])
    with pytest.raises(InputError, match="`regularisation` must be finite and greater than 0"):
        WhatIf(network(3), head="4", regularisation=0.0).fit(*data)


def test_the_old_name_of_a_public_body():
    X, y = people(3)
    data = (X[:N], y[:N], X[N:], y[N:])
    study = WhatIf(network(3), head="4", public_body=True)
    assert clone(study).public_body is True  # and no warning
    with (
        pytest.warns(ApproximationWarning, match="the given head"),
        pytest.warns(FutureWarning, match=r'`public_body` will be removed\. Write body="public"'),
    ):
        study.fit(*data)
    result = study.estimate(epsilon=1.0, method="influence")
    assert result.document.provenance.settings["body"] == "public"
    with pytest.raises(InputError, match="`body='retrained'` and `public_body` contradict"):
        WhatIf(network(3), body="retrained", public_body=True).fit(*data)
    with pytest.raises(InputTypeError, match="`public_body` must be True or False, got str"):
        WhatIf(network(3), head="4", public_body="yes").fit(*data)


@pytest.mark.parametrize("settings", [{"head": "4"}, {}])
def test_a_whole_network_is_handed_on_as_an_estimator_of_flat_rows(settings, monkeypatch):
    given = {}

    def take(self, X, y, X_test, y_test, **more):
        given.update(more, X=X, y=y)

    monkeypatch.setattr(WhatIf, "_fit_tables", take)
    module = network(3, convolves=True)
    X, y = people(3)
    parts = (torch.from_numpy(X[:N]), torch.from_numpy(y[:N]), X[N:], y[N:])
    WhatIf(module, body="retrained", train=print, **settings).fit(*parts)
    whole = given["estimator"]
    assert isinstance(whole, TorchNetwork)
    assert (whole.train, whole.input_shape, whole.random_state) == (print, (1, 6, 6), None)
    assert given["X"].shape == (N, 36)
    WhatIf(TorchNetwork(module, epochs=3, random_state=5)).fit(*parts)
    whole = given["estimator"]
    assert (whole.epochs, whole.input_shape, whole.random_state) == (3, (1, 6, 6), 5)
    assert whole.fit(given["X"], given["y"]).predict_proba(given["X"]).shape == (N, 3)


def test_a_line_can_be_fitted_to_what_was_found_elsewhere():
    study = study_of(network(3), 3)
    grid = [0.5, 1.0, 2.0, 4.0]
    x = study.estimate(epsilon=grid, method="influence").to_frame()["loss_change"].to_numpy()
    runs = pd.DataFrame(
        {
            "epsilon": np.repeat(grid, 2),
            "loss_change": np.repeat(3.0 * x + 0.1, 2) + np.tile([-0.01, 0.01], 4),
        }
    )
    line = study.calibrate(epsilon=grid, truth=runs)
    assert (line.slope, line.intercept, line.n_cells) == (pytest.approx(3.0), pytest.approx(0.1), 4)
    retrained = study.retrain(epsilon=grid, repeats=2)
    assert study.calibrate(epsilon=grid, truth=retrained) == study.calibrate(
        epsilon=grid, repeats=2
    )
    with pytest.raises(InputError, match="lacks loss_change"):
        study.calibrate(epsilon=grid, truth=runs[["epsilon"]])
    with pytest.raises(InputError, match="finite numbers"):
        study.calibrate(epsilon=grid, truth=runs.assign(loss_change=np.nan))
    with pytest.raises(InputError, match="at least 3 cells"):
        study.calibrate(epsilon=grid, truth=runs[:4])
    two = {"a": np.arange(N) < 90, "b": np.arange(N) >= 90}
    with pytest.raises(InputError, match="lacks group"):
        study.calibrate(epsilon=grid, groups=two, truth=runs)
