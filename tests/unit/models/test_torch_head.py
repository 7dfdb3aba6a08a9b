# SPDX-License-Identifier: Apache-2.0
"""What the last layer of a network receives, and what is refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from epsilens.errors import InputError, MissingExtraError
from epsilens.models.torch_head import head_features, read_head

torch = pytest.importorskip("torch")
nn = torch.nn


def images(n: int = 20, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 1, 6, 6))


def cnn(n_outputs: int = 3, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(48, n_outputs),
    )


def test_the_features_are_what_the_layers_before_give():
    module = cnn().double()
    module.train()
    module[1].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    said: list[tuple[int, int, str]] = []
    X = images(600)
    found = head_features(module, "5", X, what="training", progress=lambda *now: said.append(now))
    # As it was: mixed modes, no hook, the same numbers.
    assert module.training
    assert not module[1].training
    assert not module[5]._forward_hooks
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert said == [(done, 600, "features of the training data") for done in (256, 512, 600)]
    module.eval()
    with torch.no_grad():
        by_hand = module[:-1](torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(found, by_hand, rtol=1e-12, atol=1e-13)
    single = head_features(module.float(), "5", torch.from_numpy(X), what="training")
    np.testing.assert_allclose(single, by_hand, atol=1e-5)  # single precision


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(torch.relu(self.fc(x)))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.fc = nn.Linear(4, 4)
        self.fc.weight = self.first.weight

    def forward(self, x):
        return self.fc(self.first(x))


class Transposed(Tied):
    def __init__(self) -> None:
        super().__init__()
        self.first.weight = nn.Parameter(self.fc.weight.detach().T)


class Borrowed(Twice):
    def forward(self, x):
        return self.fc(x + 0.1 * x @ self.fc.weight)


class BorrowedBias(Twice):
    def forward(self, x):
        return self.fc(x / (1.0 + self.fc.bias.norm()))


class Cosine(nn.Linear):
    """A linear layer by its type, and not by what it does."""

    def forward(self, x):
        return nn.functional.linear(nn.functional.normalize(x), self.weight, self.bias)


class Named(nn.Linear):
    """A linear layer under another name."""


def hooked():
    module = nn.Sequential(nn.Linear(4, 3))
    module[0].register_forward_hook(lambda layer, given, output: torch.relu(output))
    return module


def normed(norm):
    module = Twice()
    norm(module.fc)
    return module


class Unused(Twice):
    def forward(self, x):
        return x


class Failing(Twice):
    def forward(self, x):
        raise RuntimeError("person 7 has HIV")


class Random(Twice):
    def forward(self, x):
        return self.fc(nn.functional.dropout(x))


class Sequence(Twice):
    def forward(self, x):
        return self.fc(x[:, None, :])


@pytest.mark.parametrize(
    ("module", "head", "words"),
    [
        (Twice, "head", "must name a layer of the module, got 'head'. Its linear layers: fc."),
        (Twice, "", "must name a layer"),
        (lambda: nn.Sequential(nn.ReLU(), nn.Linear(4, 3)), "0", "'0' is a ReLU"),
        (lambda: nn.Sequential(nn.LazyLinear(3)), "0", "no weights yet"),
        (lambda: nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)), "0", "comes after it"),
        (lambda: nn.Sequential(nn.Linear(4, 3), nn.Softplus()), "0", "comes after it"),
        (Twice, "fc", "uses it 2 times"),
        (Tied, "fc", "shares its weights with 'first'"),
        (Transposed, "fc", "shares its weights with 'first'"),
        (Borrowed, "fc", "must not depend on its own weights"),
        (BorrowedBias, "fc", "must not depend on its own weights"),
        (lambda: normed(nn.utils.parametrizations.spectral_norm), "fc", "must be plain numbers"),
        (lambda: normed(nn.utils.parametrizations.weight_norm), "fc", "must be plain numbers"),
        (lambda: normed(nn.utils.spectral_norm), "fc", "must be plain numbers"),
        (lambda: Twice().to("meta"), "fc", "must hold numbers"),
        (Unused, "fc", "uses it never"),
        (Random, "fc", "from run to run"),
        (
            lambda: nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 3)),
            "1",
            "other records of a batch",
        ),
        (Sequence, "fc", "one vector per record"),
        (lambda: nn.Sequential(Cosine(4, 3)), "0", "its weights times what it receives"),
        (hooked, "0", "its weights times what it receives"),
    ],
)
def test_what_is_no_last_layer_is_refused(module, head, words):
    made = module()
    hooks = [len(layer._forward_hooks) for layer in made.modules()]
    before = {
        name: (value, value.clone())
        for name, value in made.state_dict().items()
        if value.device.type != "meta" and not nn.parameter.is_lazy(value)
    }
    with pytest.raises(InputError, match=words.replace("(", r"\(")) as caught:
        head_features(made, head, np.random.default_rng(0).normal(size=(20, 4)), what="training")
    assert "\n" not in str(caught.value)
    assert [len(layer._forward_hooks) for layer in made.modules()] == hooks
    now = made.state_dict()
    for name, (kept, copy) in before.items():
        assert now[name].data_ptr() == kept.data_ptr()
        assert torch.equal(now[name], copy)


def test_weights_side_by_side_in_one_storage_are_not_tied():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
    X = np.random.default_rng(0).normal(size=(20, 4))
    expected = head_features(module, "2", X, what="training")
    flat = torch.cat([module[0].weight.detach().ravel(), module[2].weight.detach().ravel()])
    module[0].weight = nn.Parameter(flat[:16].view(4, 4))
    module[2].weight = nn.Parameter(flat[16:].view(3, 4))
    np.testing.assert_array_equal(head_features(module, "2", X, what="training"), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_linear_layer_of_any_name_and_precision_is_one(dtype):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), Named(300, 5)).to(dtype)
    X = 100 * np.random.default_rng(0).normal(size=(40, 300))
    np.testing.assert_allclose(
        head_features(module, "1", X, what="training"), X, rtol=1e-2, atol=1e-3
    )


class FailingLater(Twice):
    def forward(self, x):
        if not torch.equal(self.fc.weight, self.own):
            raise RuntimeError("other weights")
        return self.fc(x)


def test_a_run_that_fails_gives_the_head_its_weights_back():
    module = FailingLater()
    module.own = module.fc.weight.detach().clone()
    with pytest.raises(InputError, match="could not be run"):
        head_features(module, "fc", np.zeros((3, 4)), what="training")
    assert torch.equal(module.fc.weight, module.own)


@pytest.mark.parametrize(
    "last", [nn.LogSoftmax(1), nn.Softmax(1), nn.Identity()], ids=lambda layer: type(layer).__name__
)
def test_probabilities_of_the_head_may_follow_it(last):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Tanh(), nn.Linear(4, 3), last)
    X = np.random.default_rng(0).normal(size=(20, 4))
    found = head_features(module, "1", X, what="training")
    np.testing.assert_allclose(found, np.tanh(X), atol=1e-6)  # single precision


def test_a_module_that_fails_leaves_nothing_behind_and_quotes_nothing():
    module = Failing().train()
    with pytest.raises(InputError, match="could not be run on the test inputs") as caught:
        head_features(module, "fc", np.zeros((3, 4)), what="test")
    assert "HIV" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert module.training
    assert not module.fc._forward_hooks


def test_bad_inputs_are_refused_in_one_line():
    X = np.zeros((4, 1, 6, 6))
    with pytest.raises(InputError, match="NaN or infinity"):
        head_features(cnn(), "5", X * np.nan, what="training")
    with pytest.raises(InputError, match="must be numbers"):
        head_features(cnn(), "5", np.array([["a", "b"]]), what="training")
    with pytest.raises(InputError, match="a row per record"):
        head_features(cnn(), "5", np.zeros((0, 1, 6, 6)), what="training")


def test_without_torch_the_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r'pip install "epsilens\[torch\]"'):
        read_head(None, "5")
