# SPDX-License-Identifier: Apache-2.0
"""A torch module as a scikit-learn classifier that is trained from new weights at every fit."""

from __future__ import annotations

import copy
import math
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from epsilens._types import FloatArray
from epsilens._validate import (
    as_at_least_zero,
    as_choice,
    as_count,
    as_positive,
    require_extra,
)
from epsilens.data.frames import to_vector
from epsilens.errors import InputError, InputTypeError, setting
from epsilens.models.label import class_codes, classes_of, refuse_missing
from epsilens.models.torch_head import as_columns, as_inputs, run_module

if TYPE_CHECKING:
    import torch

    Train = Callable[[torch.nn.Module, torch.Tensor, torch.Tensor, int], torch.nn.Module]

Optimiser = Literal["adam", "sgd"]
_OPTIMISERS = ("adam", "sgd")
_MOMENTUM = 0.9
# Rows that are evaluated at a time.
_GENERATOR = threading.Lock()
_OWN_OF_TORCH = frozenset({"_parameters", "_buffers", "_modules"})
_MOST_ROWS = 1024
_SUM_TO_ONE = 1e-5


class TorchNetwork(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A torch network that is trained as a whole, from new weights, at every fit.

    The given module says how the network is built. Its own weights are not used: they may have learnt
    from answers that are to be protected. So whatever answers it is fitted on, nothing else about the
    answers is in the network.

    Parameters
    ----------
    module : torch.nn.Module
        Gives one output per class, or one for yes/no, before any softmax or sigmoid. It is copied and
        never changed.
    epochs : int
        Passes over the training records.
    batch : int
        Records per step, at most.
    learning_rate : float
    optimiser : {"adam", "sgd"}
        "sgd" has a momentum of 0.9.
    weight_decay : float
        Penalty on all weights, as torch's optimisers take it.
    train : callable, optional
        `train(module, X, y, seed)` trains a copy of the module and returns it, instead of the loop here.
        X and y are tensors; y holds class numbers. It must draw all weights anew from `seed`: weights
        that are kept have seen the true answers, if the module was trained on them. Nothing checks that, and
        results say so.
    public_state : sequence of str
        Names of buffers, and of tensors and arrays among the attributes, that are kept as they are, such as
        a table of positions. This declares that they were made without the answers.
    input_shape : tuple of int, optional
        Shape of one record, such as (1, 28, 28), where the records come as flat rows of a table.
    random_state : int, optional
        Decides the new weights, the order of the records and dropout. None: another one at every fit.

    Attributes
    ----------
    module_ : torch.nn.Module
        The trained network, in evaluation mode.
    classes_ : array of shape (n_classes,)
        In the order of the outputs. Where the module has more outputs than there are classes, labels are
        whole numbers from 0, and every output is a class.
    n_features_in_ : int
        Where the training inputs are a table.

    Notes
    -----
    A buffer that the `reset_parameters` of its layer resets, as that of BatchNorm does, need not be declared. Any
    other state may hold what the module has learnt, and is refused until it is declared in `public_state`.

    Examples
    --------
    >>> import numpy as np, torch
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.where(X[:, 0] > X[:, 1], "first", "second")
    >>> module = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> network = TorchNetwork(module, learning_rate=0.05, random_state=0).fit(X, y)
    >>> network.predict([[1.0, -1.0], [-1.0, 1.0]])
    array(['first', 'second'], dtype='<U6')
    """

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        epochs: int = 20,
        batch: int = 64,
        learning_rate: float = 1e-3,
        optimiser: Optimiser = "adam",
        weight_decay: float = 0.0,
        train: Train | None = None,
        public_state: Sequence[str] = (),
        input_shape: Sequence[int] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.module = module
        self.epochs = epochs
        self.batch = batch
        self.learning_rate = learning_rate
        self.optimiser = optimiser
        self.weight_decay = weight_decay
        self.train = train
        self.public_state = public_state
        self.input_shape = input_shape
        self.random_state = random_state

    def fit(self, X: object, y: object, sample_weight: object | None = None) -> Self:
        """Train a copy of the module from new weights.

        Parameters
        ----------
        X : tensor, array or table of numbers, shape (n, …)
        y : column of length n
        sample_weight : column of length n, optional
            Weights ≥ 0 of the records; not with `train`.

        Returns
        -------
        TorchNetwork
        """
        require_extra("torch", "a torch network", "torch")
        import torch

        self._check_settings()
        module = copy.deepcopy(self.module)
        rows = self._inputs(module, X, what="training")
        labels = to_vector(as_columns(y))
        refuse_missing(labels, what="training")
        if len(labels) != len(rows):
            raise InputError(
                f"{setting('y')} must have one label per training record ({len(rows)}), got {len(labels)}."
            )
        weights = self._weights(sample_weight, len(rows))
        seed = secrets.randbits(31) if self.random_state is None else self.random_state
        device = _device_of(module)
        on_cards = [device] if device.type == "cuda" else []
        # The generator belongs to the whole process: two trainings in threads would draw from each other's.
        with _GENERATOR, torch.random.fork_rng(devices=on_cards):
            torch.manual_seed(seed)
            if self.train is None:
                draw_weights(module, public_state=self.public_state)
            # Run once: lazy layers get their sizes, and the number of outputs is seen.
            n_outputs = _outputs(module, rows[:_MOST_ROWS], what="training").shape[1]
            classes = _classes(as_columns(y), labels, n_outputs)
            codes = torch.from_numpy(class_codes(labels, classes, what="training"))
            if self.train is None:
                self._descend(module, rows, codes, weights)
            else:
                module = self.train(module.train(), rows.to(device), codes.to(device), seed)
                if not isinstance(module, torch.nn.Module):
                    raise InputTypeError(
                        argument="train",
                        expected="a function that returns the trained module",
                        got=f"one that returns {type(module).__name__}",
                    )
        if not all(bool(part.isfinite().all()) for part in module.parameters()):
            raise InputError(
                "the training ended with weights that are not finite. Take a smaller "
                f"{setting('learning_rate')}, and standardise the inputs."
            )
        self.module_ = module.eval()
        self.classes_ = np.array(classes)
        if rows.ndim == 2 or self.input_shape is not None:
            self.n_features_in_ = int(rows[0].numel())
        return self

    def predict_proba(self, X: object) -> FloatArray:
        """Return the probability of every class.

        Parameters
        ----------
        X : tensor, array or table of numbers, shape (n, …)

        Returns
        -------
        array of shape (n, n_classes)
        """
        import torch

        check_is_fitted(self, "module_")
        rows = self._inputs(self.module_, X, what="test")
        parts = [_outputs(self.module_, part, what="test") for part in rows.split(_MOST_ROWS)]
        logits = torch.cat(parts).double()
        if logits.shape[1] == 1:
            yes = torch.sigmoid(logits)
            return np.asarray(torch.hstack([1.0 - yes, yes]).numpy())
        return np.asarray(torch.softmax(logits, dim=1).numpy())

    def predict(self, X: object) -> NDArray[np.generic]:
        """Return the most probable class of every record.

        Parameters
        ----------
        X : tensor, array or table of numbers, shape (n, …)

        Returns
        -------
        array of shape (n,)
        """
        probabilities = self.predict_proba(X)
        predicted: NDArray[np.generic] = self.classes_[probabilities.argmax(axis=1)]
        return predicted

    def _check_settings(self) -> None:
        import torch

        if not isinstance(self.module, torch.nn.Module):
            raise InputTypeError(
                argument="module", expected="a torch.nn.Module", got=type(self.module).__name__
            )
        as_count(self.epochs, name="epochs")
        as_count(self.batch, name="batch")
        as_positive(self.learning_rate, name="learning_rate")
        as_at_least_zero(self.weight_decay, name="weight_decay", such_as=1e-4)
        as_choice(self.optimiser, _OPTIMISERS, name="optimiser")
        if isinstance(self.public_state, str):
            raise InputTypeError(
                argument="public_state",
                expected="a list of names",
                got="one text",
                hint="Write [...].",
            )
        if self.random_state is not None:
            as_count(self.random_state, name="random_state", least=0)
        if self.train is not None and not callable(self.train):
            raise InputTypeError(
                argument="train",
                expected="a function train(module, X, y, seed)",
                got=type(self.train).__name__,
            )

    def _inputs(self, module: torch.nn.Module, X: object, *, what: str) -> torch.Tensor:
        """Return the inputs as the module takes them."""
        rows = as_inputs(X, _precision_of(module), what=what)
        if self.input_shape is None:
            return rows
        shape = tuple(self.input_shape)
        if rows[0].numel() != math.prod(shape):
            raise InputError(
                f"{setting('input_shape')} must have as many numbers as a record of the {what} data "
                f"({rows[0].numel()}), got {shape}."
            )
        return rows.reshape(len(rows), *shape)

    def _weights(self, given: object | None, n_rows: int) -> torch.Tensor | None:
        """Return the weights of the records, with a mean of 1."""
        import torch

        if given is None:
            return None
        if self.train is not None:
            raise InputError(
                f"{setting('sample_weight')} is not passed on to {setting('train')}. Leave it out."
            )
        weights = np.asarray(to_vector(as_columns(given)), dtype=np.float64)
        is_usable = len(weights) == n_rows and np.isfinite(weights).all() and (weights >= 0).all()
        if not is_usable or not weights.any():
            raise InputError(
                f"{setting('sample_weight')} must be {n_rows} finite numbers of at least 0, one per "
                "training record, not all of them 0."
            )
        return torch.from_numpy(weights / weights.mean())

    def _descend(
        self,
        module: torch.nn.Module,
        rows: torch.Tensor,
        codes: torch.Tensor,
        weights: torch.Tensor | None,
    ) -> None:
        """Train the module in place on cross entropy."""
        import torch

        settings = {"lr": self.learning_rate, "weight_decay": self.weight_decay}
        if self.optimiser == "adam":
            steps = torch.optim.Adam(module.parameters(), **settings)
        else:
            steps = torch.optim.SGD(module.parameters(), momentum=_MOMENTUM, **settings)
        device = _device_of(module)
        module.train()
        for batch in self._batches(len(rows)):
            steps.zero_grad()
            output = run_module(module, rows[batch].to(device), what="training")
            losses = _losses(output, codes[batch].to(device))
            if weights is not None:
                losses = losses * weights[batch].to(losses)
            losses.mean().backward()
            steps.step()

    def _batches(self, n_rows: int) -> Iterator[torch.Tensor]:
        """Yield the records of every step: batches of about equal size, since BatchNorm fails on one record."""
        import torch

        for _ in range(self.epochs):
            yield from torch.randperm(n_rows).tensor_split(math.ceil(n_rows / self.batch))


def draw_weights(module: torch.nn.Module, *, public_state: Sequence[str] = ()) -> None:
    """Draw all weights of a module anew, in place, from torch's generator.

    Parameters
    ----------
    module : torch.nn.Module
    public_state : sequence of str
        Names of buffers, tensors and arrays that are kept, since they are public.

    Raises
    ------
    InputError
        If a weight is frozen, or if something that may have learnt is not reset by the `reset_parameters` of a
        layer.

    Examples
    --------
    >>> import torch
    >>> layer = torch.nn.Linear(1, 1)
    >>> _ = torch.nn.init.constant_(layer.weight, 7.0)
    >>> draw_weights(layer)
    >>> bool(layer.weight.abs() <= 1.0)
    True
    """
    import torch

    parts = {
        name: part
        for name, part in module.named_parameters()
        if not torch.nn.parameter.is_lazy(part)
    }
    frozen = [
        name
        for name, part in parts.items()
        if not (part.requires_grad and (part.is_floating_point() or part.is_complex()))
    ]
    if frozen:
        raise InputError(
            f"every weight must be trained again, but {frozen[0]!r} is frozen (requires_grad=False) or whole numbers. Give your "
            f"own function as {setting('train')}, which says what is drawn anew."
        )
    buffers = {
        name: part
        for name, part in module.named_buffers()
        if not torch.nn.parameter.is_lazy(part) and part.numel() and name not in public_state
    }
    marked = {}
    with torch.no_grad():
        for part in parts.values():
            part.fill_(math.nan)  # what no layer resets is then seen
        for name, part in buffers.items():
            part.copy_(_marked(part))
            marked[name] = part.clone()
    # A layer after the layers inside it, as constructors do it.
    for layer in reversed(list(module.modules())):
        reset = getattr(layer, "reset_parameters", None) or getattr(
            layer, "_reset_parameters", None
        )
        if callable(reset):
            reset()
    kept = [name for name, part in parts.items() if bool(part.isnan().any())]
    if kept:
        raise InputError(
            f"every weight must be drawn anew, but no layer resets {kept[0]!r}: it needs a method "
            f"`reset_parameters`. Add one, or give your own function as {setting('train')}."
        )
    state = dict(module.named_buffers())
    kept = [
        name
        for name, before in marked.items()
        if bool(torch.isclose(state[name], before, rtol=0, atol=0, equal_nan=True).any())
    ]
    kept += [name for name in _other_state(module) if name not in public_state]
    if kept:
        raise InputError(
            f"no layer resets {kept[0]!r}, which may hold what the module has learnt. If it is public, declare it: "
            f"{setting('public_state')}, as [{kept[0]!r}]. Otherwise add a method `reset_parameters` that resets it."
        )


def _marked(part: torch.Tensor) -> torch.Tensor:
    """Return values that a layer's reset would not leave behind by chance."""
    import torch

    if part.is_floating_point() or part.is_complex():
        return torch.full_like(part, math.nan)
    return ~part if part.dtype == torch.bool else torch.full_like(part, 113)


def _other_state(module: torch.nn.Module) -> Iterator[str]:
    """Yield the names of tensors and arrays that are plain attributes of a layer."""
    import torch

    # Some layers list their own weights once more.
    known = {id(part) for part in (*module.parameters(), *module.buffers(), *module.modules())}

    def has_numbers(value: object) -> bool:
        if isinstance(value, torch.Tensor | np.ndarray | torch.nn.Module):
            return id(value) not in known
        if isinstance(value, dict):
            return any(map(has_numbers, value.values()))
        return isinstance(value, list | tuple) and any(map(has_numbers, value))

    for prefix, layer in module.named_modules():
        for name, value in vars(layer).items():
            if name not in _OWN_OF_TORCH and has_numbers(value):
                yield f"{prefix}.{name}" if prefix else name


def _device_of(module: torch.nn.Module) -> torch.device:
    import torch

    first = next(module.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def _precision_of(module: torch.nn.Module) -> torch.dtype:
    """Return the type of the weights, which inputs with a fraction take on."""
    import torch

    known = (part.dtype for part in module.parameters() if part.is_floating_point())
    return next(known, torch.get_default_dtype())


def _outputs(module: torch.nn.Module, rows: torch.Tensor, *, what: str) -> torch.Tensor:
    """Return the outputs for some records in evaluation mode, (n, n_outputs)."""
    import torch

    module.eval()
    with torch.no_grad():
        output = run_module(module, rows.to(_device_of(module)), what=what)
    if isinstance(output, torch.Tensor) and output.shape == (len(rows),):
        output = output[:, None]
    if not isinstance(output, torch.Tensor) or output.ndim != 2 or len(output) != len(rows):
        raise InputError(
            "the module must give one row of outputs per record, one output per class or one for yes/no. "
            "Flatten or pool before its last layer."
        )
    if _are_probabilities(output, list(module.modules())[-1]):
        raise InputError(
            "the module must give its outputs before any softmax or sigmoid, but it gives probabilities. "
            "Leave out its last layer."
        )
    return output.cpu()


def _are_probabilities(output: torch.Tensor, last: torch.nn.Module) -> bool:
    """Return whether outputs are those of a softmax, or of a sigmoid that is the last layer."""
    import torch

    if not bool(((output >= 0) & (output <= 1)).all()):
        return False
    add_up = bool(((output.sum(dim=1) - 1.0).abs() < _SUM_TO_ONE).all())
    return (output.shape[1] > 1 and add_up) or isinstance(last, torch.nn.Sigmoid)


def _classes(y: object, labels: NDArray[np.generic], n_outputs: int) -> tuple[object, ...]:
    """Return the class of every output, or of no and yes."""
    known = classes_of(y)
    n_classes = max(n_outputs, 2)
    if len(known) == n_classes:
        return known
    are_numbers = labels.dtype.kind in "biu" and labels.min() >= 0 and labels.max() < n_classes
    if not are_numbers:
        raise InputError(
            f"the module must have an output per class, or one for yes/no, got {n_outputs} outputs and "
            f"labels of {len(known)} classes. Where a class may be missing from the labels, number the "
            "classes from 0."
        )
    return tuple(range(n_classes))


def _losses(output: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy of every record."""
    from torch.nn import functional

    if output.ndim == 1 or output.shape[1] == 1:
        yes = output.reshape(-1)
        return functional.binary_cross_entropy_with_logits(yes, codes.to(yes), reduction="none")
    return functional.cross_entropy(output, codes, reduction="none")
