# SPDX-License-Identifier: Apache-2.0
"""`TorchNetwork`: a whole network that is trained from new weights."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epsilens import WhatIf
from epsilens.errors import InputError, InputTypeError
from epsilens.models import TorchNetwork
from epsilens.models.torch_network import draw_weights

torch = pytest.importorskip("torch")
nn = torch.nn
N = 200


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # several would wait for one another
    yield
    torch.set_num_threads(threads)


def plain(n_outputs: int = 2) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, n_outputs))


def convolving() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.LazyLinear(2),
    )


def people(n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(N, 3))
    return X, X[:, :n_classes].argmax(axis=1)


def pictures() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(N, 1, 5, 5))
    return X, (X[:, 0, :3, :3].sum(axis=(1, 2)) > 0).astype(int)


def network_of(module: nn.Module, **settings: object) -> TorchNetwork:
    return TorchNetwork(module, **{"learning_rate": 0.03, "random_state": 0, **settings})


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize(("n_outputs", "n_classes"), [(1, 2), (2, 2), (3, 3)])
def test_it_learns_what_can_be_learnt(n_outputs, n_classes, optimiser):
    X, y = people(n_classes)
    network = network_of(plain(n_outputs), optimiser=optimiser).fit(X, y)
    assert network.score(X, y) > 0.9
    probabilities = network.predict_proba(X)
    assert probabilities.shape == (N, n_classes)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (network.classes_[probabilities.argmax(axis=1)] == network.predict(X)).all()
    assert network.n_features_in_ == 3
    assert is_classifier(network)


def test_pictures_batch_norm_dropout_and_lazy_layers():
    X, y = pictures()
    network = network_of(convolving(), batch=33).fit(torch.from_numpy(X), torch.from_numpy(y))
    assert network.score(X, y) > 0.85
    assert not hasattr(network, "n_features_in_")
    assert not network.module_.training
    # Flat rows of a table are the same pictures.
    flat = network_of(convolving(), batch=33, input_shape=(1, 5, 5)).fit(X.reshape(N, -1), y)
    np.testing.assert_array_equal(flat.predict_proba(X.reshape(N, -1)), network.predict_proba(X))
    assert flat.n_features_in_ == 25
    with pytest.raises(InputError, match=r"`input_shape` must have as many numbers .* \(3\)"):
        network_of(convolving(), input_shape=(1, 5, 5)).fit(*people())


def test_the_seed_decides_everything_and_nothing_else_does():
    X, y = pictures()
    torch.manual_seed(11)
    one = network_of(convolving(), epochs=2).fit(X, y).predict_proba(X)
    torch.manual_seed(12)
    again = network_of(convolving(), epochs=2).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(one, again)
    other = network_of(convolving(), epochs=2, random_state=1).fit(X, y).predict_proba(X)
    assert np.abs(other - one).max() > 0.01
    drawn = [
        network_of(plain(), epochs=1, random_state=None).fit(*people()).predict_proba(people()[0])
        for _ in range(2)
    ]
    assert np.abs(drawn[0] - drawn[1]).max() > 1e-4


def test_the_global_generator_and_the_given_module_stay_as_they_were():
    X, y = people()
    module = plain().train()
    before = {name: part.clone() for name, part in module.state_dict().items()}
    state = torch.get_rng_state()
    network_of(module).fit(X, y).predict(X)
    assert torch.equal(torch.get_rng_state(), state)
    assert module.training
    assert all(torch.equal(part, before[name]) for name, part in module.state_dict().items())


def test_what_the_module_had_learnt_is_gone():
    """The weights of the given module do not enter: two that differ lead to one network."""
    X, y = people()
    trained = network_of(plain()).fit(X, y).module_
    fresh, again = (
        network_of(module, epochs=1).fit(X, 1 - y).predict_proba(X) for module in (plain(), trained)
    )
    np.testing.assert_array_equal(fresh, again)


@pytest.mark.parametrize(
    "module",
    [
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
        nn.LSTM(3, 4, 2),
        nn.Embedding(5, 3, padding_idx=0),
        nn.Sequential(nn.Bilinear(2, 2, 2), nn.PReLU(), nn.LayerNorm(2), nn.GroupNorm(1, 2)),
    ],
    ids=lambda module: type(module).__name__,
)
def test_layers_of_torch_can_be_drawn_anew(module):
    with torch.no_grad():
        for part in module.parameters():
            part.fill_(7.0)
    draw_weights(module)
    assert not any(bool((part == 7.0).any()) for part in module.parameters())
    assert all(bool(part.isfinite().all()) for part in module.parameters())


def test_averages_of_batch_norm_are_drawn_anew():
    module = nn.BatchNorm1d(3, affine=False)
    module(100.0 + torch.ones(5, 3))
    draw_weights(module)
    assert module.running_mean.tolist() == [0.0, 0.0, 0.0]


class Shifted(nn.Module):
    """A layer with a weight of its own that nothing resets."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(3))
        self.fc = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x + self.shift)


def own_training(module, X, y, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part in module.parameters():
            part.copy_(torch.randn(part.shape, generator=generator))
    steps = torch.optim.Adam(module.parameters(), lr=0.05)
    for _ in range(100):
        steps.zero_grad()
        nn.functional.cross_entropy(module(X), y).backward()
        steps.step()
    return module


def test_a_function_of_ones_own_trains_instead():
    X, y = people()
    network = network_of(Shifted(), train=own_training).fit(X, y)
    assert network.score(X, y) > 0.9
    again = network_of(Shifted(), train=own_training).fit(X, y)
    np.testing.assert_array_equal(network.predict_proba(X), again.predict_proba(X))
    with pytest.raises(InputError, match="`sample_weight` is not passed on to `train`"):
        network.fit(X, y, sample_weight=np.ones(N))
    with pytest.raises(InputTypeError, match="returns the trained module, got one that returns No"):
        network_of(Shifted(), train=lambda module, X, y, seed: None).fit(X, y)


def normed(norm) -> nn.Module:
    module = plain()
    norm(module[0])
    return module


def frozen() -> nn.Module:
    module = plain()
    module[0].requires_grad_(False)
    return module


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Shifted(), r"no layer resets 'shift': .* `reset_parameters`\. Add one, or .* `train`"),
        (normed(nn.utils.parametrizations.weight_norm), r"no layer resets '0\.parametrizations"),
        (normed(nn.utils.spectral_norm), r"no layer resets '0\.weight_orig'"),
        (frozen(), r"'0\.weight' is frozen .* `train`"),
        (nn.Sequential(plain(), nn.Softmax(1)), "it gives probabilities"),
        (nn.Sequential(plain(1), nn.Sigmoid()), "it gives probabilities"),
        (nn.Sequential(plain(), nn.Unflatten(1, (1, 2))), "one row of outputs per record"),
        (nn.Linear(7, 2), r"could not be run on the training inputs \(RuntimeError"),
    ],
)
def test_modules_that_cannot_be_trained_again_are_refused(module, words):
    with pytest.raises(InputError, match=words):
        network_of(module).fit(*people())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": 0}, "`epochs` must be at least 1"),
        ({"batch": 2.5}, "`batch` must be a whole number"),
        ({"learning_rate": 0.0}, "`learning_rate` must be finite and greater than 0"),
        ({"weight_decay": -1.0}, "`weight_decay` must be a finite number of at least 0"),
        ({"optimiser": "lion"}, "`optimiser` must be one of 'adam', 'sgd'"),
        ({"random_state": -1}, "`random_state` must be at least 0"),
        ({"train": "mine"}, "`train` must be a function"),
        (
            {"learning_rate": 1e30, "weight_decay": 1e30},
            "not finite. Take a smaller `learning_rate`",
        ),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises(InputError, match=words):
        network_of(plain(), **settings).fit(*people())
    with pytest.raises(InputTypeError, match=r"`module` must be a torch\.nn\.Module, got str"):
        TorchNetwork("resnet").fit(*people())


def test_labels_are_the_classes_of_the_outputs():
    X, y = people(3)
    with pytest.raises(InputError, match="got 2 outputs and labels of 3 classes"):
        network_of(plain(2)).fit(X, y)
    with pytest.raises(InputError, match="must have one label per training record"):
        network_of(plain(3)).fit(X, y[:-1])
    # A class that does not occur is a class still, where classes are numbers or declared.
    some = network_of(plain(3), epochs=1).fit(X, np.minimum(y, 1))
    assert some.classes_.tolist() == [0, 1, 2]
    names = pd.Categorical.from_codes(np.minimum(y, 1), categories=["a", "b", "c"])
    assert network_of(plain(3), epochs=1).fit(X, pd.Series(names)).classes_.tolist() == [*"abc"]
    with pytest.raises(InputError, match="number the classes from 0"):
        network_of(plain(3)).fit(X, np.asarray(names))


def test_weights_count_records():
    X, y = people()
    twice = np.r_[0:50, 0:50]
    settings = {"epochs": 300, "batch": 1000, "optimiser": "sgd", "learning_rate": 0.1}
    repeated = network_of(nn.Linear(3, 2).double(), **settings).fit(X[twice], y[twice])
    weights = np.r_[np.full(50, 2.0), np.zeros(N - 50)]
    weighted = network_of(nn.Linear(3, 2).double(), **settings).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-9)
    for wrong in (np.zeros(N), -np.ones(N), np.ones(3), np.full(N, np.nan)):
        with pytest.raises(InputError, match="`sample_weight` must be 200 finite numbers"):
            network_of(plain()).fit(X, y, sample_weight=wrong)


def test_it_is_an_estimator_like_others():
    X, y = people()
    network = network_of(plain(), epochs=2).fit(X, y)
    again = clone(network)
    assert again.get_params().keys() == network.get_params().keys()
    assert again.module is not network.module
    assert not hasattr(again, "module_")
    np.testing.assert_array_equal(again.fit(X, y).predict_proba(X), network.predict_proba(X))
    loaded = pickle.loads(pickle.dumps(network))
    np.testing.assert_array_equal(loaded.predict_proba(X), network.predict_proba(X))
    table = pd.DataFrame(X, columns=[*"abc"])
    assert make_pipeline(StandardScaler(), network).fit(table, y).predict(table).shape == (N,)


class Remembering(nn.Module):
    """Keeps answers beside its weights."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.out = nn.Linear(3, 2)
        answers = torch.ones(N)
        if place == "buffer":
            self.register_buffer("known", answers)
        elif place == "whole numbers":
            self.register_buffer("known", answers.long())
        elif place == "yes or no":
            self.register_buffer("known", answers.bool())
        elif place == "array":
            self.known = answers.numpy()
        elif place == "list":
            self.known = [answers]
        elif place == "module":
            self.known = {"body": nn.Linear(3, 2)}
        else:
            self.known = answers

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.out(X)


PLACES = ["buffer", "whole numbers", "yes or no", "array", "list", "module", "attribute"]


@pytest.mark.parametrize("place", PLACES)
def test_state_that_may_have_learnt_is_refused_until_it_is_declared(place):
    X, y = people()
    with pytest.raises(InputError, match="'known', which may hold what the module has learnt"):
        network_of(Remembering(place)).fit(X, y)
    network = network_of(Remembering(place), public_state=["known"], epochs=1).fit(X, y)
    if place == "buffer":
        assert bool((network.module_.known == 1).all())
    result = WhatIf(TorchNetwork(Remembering(place), public_state=["known"], epochs=1))
    label = pd.Series(y, dtype="category")
    notes = result.fit(X, label, X, label).estimate(epsilon=[1.0], repeats=2).document.notes
    assert "state-public" in {note.code for note in notes}


class Restoring(nn.Linear):
    """Resets its weights to what it had learnt."""

    def __init__(self) -> None:
        super().__init__(3, 2)
        self.saved = self.weight.detach().clone()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if hasattr(self, "saved"):
            self.weight.data.copy_(self.saved)


def test_a_layer_that_resets_to_what_it_has_learnt_is_refused():
    with pytest.raises(InputError, match="'saved'"):
        draw_weights(Restoring())


def test_whole_numbers_among_the_weights_are_refused():
    layer = nn.Linear(3, 2)
    layer.places = nn.Parameter(torch.arange(3), requires_grad=False)
    with pytest.raises(InputError, match="'places' is frozen"):
        draw_weights(layer)


def test_training_of_ones_own_is_said_to_be_unchecked():
    X, y = people()
    study = WhatIf(plain(), body="retrained", train=lambda module, X, y, seed: module)
    label = pd.Series(y, dtype="category")
    notes = study.fit(X, label, X, label).estimate(epsilon=[1.0], repeats=2).document.notes
    assert "own-training" in {note.code for note in notes}
