# SPDX-License-Identifier: Apache-2.0
"""The last layer of a network: what it receives, and the linear model that it is (P1 V-D).

A network's last linear layer is a softmax or logistic regression on the features that the layers before it
compute. With these frozen, everything that is known about linear models holds for it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilens._types import FloatArray, Progress
from epsilens._validate import require_extra
from epsilens.data.frames import to_pandas
from epsilens.errors import InputError, InputTypeError, setting

if TYPE_CHECKING:
    import torch
    from sklearn.linear_model import LogisticRegression


_MOST_ROWS = 256
_MOST_BYTES = 16 * 2**20
# Rows that are run once more on their own: features must not hang on who else is in the batch.
_ROWS_ALONE = 8
_ALIKE = 1e-3


def read_head(module: object, name: object) -> torch.nn.Linear:
    """Return the linear layer of that name.

    Parameters
    ----------
    module : torch.nn.Module
    name : str
        Dotted, as `module.named_modules()` has it.

    Raises
    ------
    MissingExtraError
        Without torch.
    InputError
        If there is no such layer, it is not linear, its weights are used elsewhere too or computed
        from others, or the module holds no numbers.

    Examples
    --------
    >>> import torch
    >>> read_head(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(3, 2)), "1").out_features
    2
    """
    require_extra("torch", "a model with a `head`", "torch")
    import torch

    if not isinstance(module, torch.nn.Module):
        raise InputTypeError(
            f"{setting('head')} is for a torch.nn.Module, got {type(module).__name__}. Leave it "
            "out."
        )
    layers = dict(module.named_modules())
    linear = [known for known, layer in layers.items() if isinstance(layer, torch.nn.Linear)]
    hint = f"Its linear layers: {', '.join(linear) or 'none'}."
    if not isinstance(name, str) or not name or name not in layers:
        raise InputError(f"{setting('head')} must name a layer of the module, got {name!r}. {hint}")
    head = layers[name]
    if not isinstance(head, torch.nn.Linear):
        raise InputError(
            f"{setting('head')} must name a torch.nn.Linear, but {name!r} is a "
            f"{type(head).__name__}. {hint}"
        )
    # Spectral or weight norm and pruning keep the weights under other names and compute them anew, some
    # at every look: they are not looked at here.
    own = dict(head.named_parameters(recurse=False))
    is_computed = torch.nn.utils.parametrize.is_parametrized(head) or "bias" in vars(head)
    if is_computed or "weight" not in own:
        raise InputError(
            f"the weights of {name!r} must be plain numbers, but they are computed from others (such as by "
            "spectral_norm, weight_norm or pruning). Remove that: torch.nn.utils.parametrize"
            ".remove_parametrizations, remove_weight_norm, prune.remove."
        )
    if torch.nn.parameter.is_lazy(head.weight):
        raise InputError(f"the layer {name!r} has no weights yet. Run the module once before.")
    if any(tensor.is_meta for layer in layers.values() for tensor in _tensors_of(layer)):
        raise InputError(
            "the module must hold numbers, but some of its weights are on the device `meta`, which keeps "
            "shapes only. Load the weights first."
        )
    for other, layer in layers.items():
        if layer is not head and any(
            _overlap(mine, held) for mine in _tensors_of(head) for held in _tensors_of(layer)
        ):
            raise InputError(
                f"the layer {name!r} shares its weights with {other or 'the module'!r}: training it again "
                "would move the features too. Untie them."
            )
    return head


def _tensors_of(layer: torch.nn.Module) -> list[torch.Tensor]:
    """Return what a layer itself holds: parameters, buffers, and tensors that are plain attributes."""
    import torch

    held = [
        *layer.parameters(recurse=False),
        *layer.buffers(recurse=False),
        *vars(layer).values(),
    ]
    return [
        tensor
        for tensor in held
        if isinstance(tensor, torch.Tensor)
        and tensor.layout == torch.strided
        and not torch.nn.parameter.is_lazy(tensor)
    ]


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors lie in one storage, at places that meet: views are tied as well.

    All weights of a network may lie in one storage side by side, which ties none.
    """
    if one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr():
        return False
    first, second = _span(one), _span(other)
    return max(first[0], second[0]) < min(first[1], second[1])


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the first byte of a tensor and the first after it."""
    if tensor.numel() == 0:
        return 0, 0
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + (last + 1) * tensor.element_size()


def as_columns(values: object) -> object:
    """Return labels or weights that came as a tensor as an array; anything else as it is."""
    return values.detach().cpu().numpy() if _is_tensor(values) else values  # type: ignore[attr-defined]


def _is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_module(value: object) -> bool:
    """Return whether something is a torch.nn.Module, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def head_features(
    module: torch.nn.Module,
    name: str,
    X: object,
    *,
    what: str,
    progress: Progress | None = None,
) -> FloatArray:
    """Return what the head receives for every record, in evaluation mode, batch by batch.

    The module is left as it was: weights, modes and hooks, whatever happens on the way.

    Parameters
    ----------
    module : torch.nn.Module
    name : str
        Name of the head, as `read_head` has found it.
    X : tensor or array of shape (n, …), or table of numbers
        As the module takes it; floating-point numbers in any precision.
    what : str
        "training" or "test", for messages.
    progress : callable, optional
        Called with (rows done, rows, what).

    Returns
    -------
    array of shape (n, in_features)

    Raises
    ------
    InputError
        If the head is not what the module ends in, is used more than once for a batch, gives something
        else than its weights say, or its features are not finite, or depend on the other records of a
        batch or on the head's weights.

    Examples
    --------
    >>> import numpy as np, torch
    >>> module = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 3))
    >>> head_features(module, "1", np.array([[1.0, -1.0]]), what="training")
    array([[1., 0.]])
    """
    import torch

    head = read_head(module, name)
    rows = as_inputs(X, head.weight.dtype, what=what)
    n_rows = len(rows)
    features = np.empty((n_rows, head.in_features))
    row_bytes = max(1, rows[0].numel() * rows.element_size())
    step = int(max(1, min(_MOST_ROWS, _MOST_BYTES // row_bytes)))
    with _listening(module, head) as heard, torch.no_grad():
        for start in range(0, n_rows, step):
            batch = rows[start : start + step].to(head.weight.device)
            features[start : start + step] = _received(module, name, batch, heard, what=what)
            if start == 0 and len(batch) > 1:
                alone = _received(module, name, batch[:_ROWS_ALONE], heard, what=what)
                _refuse_mixed(features[: len(alone)], alone, name)
            if start == 0:
                with _other_weights(head):
                    _run(module, name, batch, heard, what=what)
                _refuse_own(features[: len(batch)], _as_numbers(heard.calls[0][0]), head, name)
            if progress is not None:
                progress(min(start + step, n_rows), n_rows, f"features of the {what} data")
    if not np.isfinite(features).all():
        raise InputError(
            f"the features that {name!r} receives must be finite, but some of the {what} data give NaN or "
            "infinity. Look for missing inputs, or layers that overflow."
        )
    return features


def as_inputs(X: object, precision: torch.dtype, *, what: str) -> torch.Tensor:
    """Return the inputs as a tensor, numbers with a fraction in the precision of the weights."""
    import torch

    tensor = X
    if not isinstance(X, torch.Tensor):
        array = X if isinstance(X, np.ndarray | list | tuple) else to_pandas(X).to_numpy()
        array = np.asarray(array)
        if array.dtype.kind not in "biuf":
            raise InputError(
                f"the {what} inputs of a module must be numbers, got values of type {array.dtype}."
            )
        tensor = torch.from_numpy(np.ascontiguousarray(array))
    assert isinstance(tensor, torch.Tensor)  # noqa: S101
    if tensor.ndim < 2 or len(tensor) == 0:
        raise InputError(
            f"the {what} inputs must have a row per record and at least one row, got the shape "
            f"{tuple(tensor.shape)}."
        )
    is_number = tensor.is_floating_point() or tensor.dtype == torch.bool
    return tensor.detach().to(precision) if is_number else tensor.detach()


def run_module(module: torch.nn.Module, batch: torch.Tensor, *, what: str) -> Any:
    """Return what the module gives for a batch; its errors are said again without their text."""
    try:
        return module(batch)
    except (RuntimeError, ValueError, TypeError, IndexError, KeyError, AssertionError) as error:
        raise InputError(
            f"the module could not be run on the {what} inputs ({type(error).__name__}; its text is "
            "withheld because it may quote data). Try it on a few rows: module(X[:2])."
        ) from None


class _Heard:
    """What went into the head and came out of it while a batch was run."""

    def __init__(self, head: torch.nn.Linear) -> None:
        self.head = head
        self.calls: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __call__(self, layer: object, given: tuple[Any, ...], output: Any) -> None:
        self.calls.append((given[0] if given else None, output))


@contextmanager
def _listening(module: torch.nn.Module, head: torch.nn.Linear) -> Iterator[_Heard]:
    """Listen at the head in evaluation mode; leave hooks and modes as they were."""
    modes = [(layer, layer.training) for layer in module.modules()]
    heard = _Heard(head)
    hook = head.register_forward_hook(heard)
    try:
        module.eval()
        yield heard
    finally:
        hook.remove()
        for layer, mode in modes:
            layer.training = mode


@contextmanager
def _other_weights(head: torch.nn.Linear) -> Iterator[None]:
    """Give the head other weights meanwhile.

    The weights themselves are put aside and put back, not written over: they cannot be lost.
    """
    import torch

    generator = torch.Generator().manual_seed(0)
    kept = [(part, part.data) for part in (head.weight, head.bias) if part is not None]
    try:
        for part, own in kept:
            # A tensor of inference mode takes no other kind.
            with torch.inference_mode(own.is_inference()):
                noise = torch.randn(own.shape, generator=generator).to(own.device, own.dtype)
                size = own.abs().mean()
                part.data = 2.0 * own + noise * torch.where(size > 0, size, torch.ones_like(size))
        yield
    finally:
        for part, own in kept:
            part.data = own


def _as_numbers(received: torch.Tensor) -> FloatArray:
    import torch

    return np.asarray(received.detach().cpu().to(torch.float64).numpy())


def _run(
    module: torch.nn.Module, name: str, batch: torch.Tensor, heard: _Heard, *, what: str
) -> object:
    """Run one batch and return what the module gives; the head must have been used once, as linear."""
    import torch

    heard.calls.clear()
    result = run_module(module, batch, what=what)
    if len(heard.calls) != 1:
        times = "never" if not heard.calls else f"{len(heard.calls)} times"
        raise InputError(
            f"the head {name!r} must be used once for a batch, but the module uses it {times}. Choose the "
            "layer that gives the classes."
        )
    received, output = heard.calls[0]
    if not isinstance(received, torch.Tensor) or received.shape[:-1] != (len(batch),):
        raise InputError(
            f"the head {name!r} must receive one vector per record, as an argument by position. Pool or "
            "flatten before it."
        )
    # A subclass of torch.nn.Linear, or a hook, may give anything.
    if not _is_linear(heard.head, received, output):
        raise InputError(
            f"the head {name!r} must give its weights times what it receives, and its bias, but it gives "
            "something else. Choose a plain torch.nn.Linear, without hooks that change its output."
        )
    return result


def _is_linear(head: torch.nn.Linear, received: torch.Tensor, output: object) -> bool:
    """Return whether a head has given what its weights and bias give."""
    import torch

    if not isinstance(output, torch.Tensor) or output.shape != (len(received), head.out_features):
        return False
    x, weight = received.double(), head.weight.double()
    bias = 0.0 if head.bias is None else head.bias.double()
    # In the precision of the head, or that of matrix products on a card, which may be less.
    alike = max(_ALIKE, 4.0 * torch.finfo(output.dtype).eps)
    apart = (output.double() - (x @ weight.T + bias)).abs()
    room = x.abs() @ weight.abs().T + abs(bias)
    # What overflows in half precision says nothing.
    return not bool(((apart > alike * room) & output.isfinite()).any())


def _received(
    module: torch.nn.Module, name: str, batch: torch.Tensor, heard: _Heard, *, what: str
) -> FloatArray:
    """Run one batch and return what the head received, checked."""
    result = _run(module, name, batch, heard, what=what)
    received, output = heard.calls[0]
    if not _is_output(result, output):
        raise InputError(
            f"the module's output must be that of {name!r}, or its log-softmax or probabilities, but something "
            "else comes after it. Choose the last linear layer, or leave out what follows it."
        )
    return _as_numbers(received)


def _is_output(result: object, output: torch.Tensor) -> bool:
    """Return whether the module gives what the head gives, or probabilities of it."""
    import torch

    if not isinstance(result, torch.Tensor) or result.numel() != output.numel():
        return False
    result, output = result.reshape(output.shape).double(), output.double()
    if output.shape[1] == 1:
        squashed = [torch.sigmoid(output), torch.nn.functional.logsigmoid(output)]
    else:
        squashed = [torch.softmax(output, 1), torch.log_softmax(output, 1)]
    # In the precision of the module, which may be half.
    return any(
        torch.allclose(result, known, rtol=_ALIKE, atol=_ALIKE, equal_nan=True)
        for known in (output, *squashed)
    )


def _refuse_mixed(together: FloatArray, alone: FloatArray, name: str) -> None:
    size = np.nanmax(np.abs(alone), initial=0.0)
    apart = np.abs(together - alone)
    if (apart > _ALIKE * size).any():
        raise InputError(
            f"the features that {name!r} receives must belong to a record alone, but they change with the other "
            "records of a batch, or from run to run. Look for BatchNorm without running averages, or dropout "
            "that ignores eval()."
        )


def _refuse_own(before: FloatArray, after: FloatArray, head: torch.nn.Linear, name: str) -> None:
    """Refuse features that are others where the head has other weights."""
    import torch

    alike = min(_ALIKE, 100.0 * torch.finfo(head.weight.dtype).eps)
    size = np.nanmax(np.abs(before), initial=0.0)
    if not np.allclose(before, after, rtol=0.0, atol=alike * size, equal_nan=True):
        raise InputError(
            f"the features that {name!r} receives must not depend on its own weights, but they change with "
            "them: training it again would move the features too. Use its weights for nothing else."
        )


def as_linear_model(
    head: torch.nn.Linear, classes: tuple[object, ...], *, regularisation: float
) -> LogisticRegression:
    """Return the head as the logistic or softmax regression that it is, with its own weights.

    Two outputs for two classes are one logit, their difference, whose penalty is half that of the
    two.

    Parameters
    ----------
    head : torch.nn.Linear
    classes : tuple
        In the order of the outputs.
    regularisation : float
        C of the head: the objective is Σℓ + ‖W‖²/(2C).

    Raises
    ------
    InputError
        If the outputs do not match the classes.
    """
    from sklearn.linear_model import LogisticRegression

    n_outputs, n_classes = head.out_features, len(classes)
    if n_outputs != n_classes and not (n_outputs == 1 and n_classes == 2):
        raise InputError(
            f"the head must have an output per class, or one for two classes, got {n_outputs} outputs and "
            f"labels of {n_classes} classes. Give labels of the classes it was trained on."
        )
    weight = head.weight.detach().cpu().double().numpy()
    bias = np.zeros(n_outputs)
    if head.bias is not None:
        bias = head.bias.detach().cpu().double().numpy()
    strength = regularisation
    if n_outputs == 2:
        weight, bias, strength = weight[1:] - weight[:1], bias[1:] - bias[:1], 2.0 * strength
    model = LogisticRegression(C=strength, fit_intercept=head.bias is not None)
    model.classes_ = np.array(classes)
    model.coef_, model.intercept_ = weight, bias
    return model
