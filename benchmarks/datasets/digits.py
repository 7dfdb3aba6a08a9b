# SPDX-License-Identifier: Apache-2.0
"""MNIST: 70,000 handwritten digits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from datasets.door import DataSet, refuse_other_shape
from datasets.files import ArraysFile
from datasets.sources import Source, openml

__all__ = ["DIGITS_OF_P1", "MNIST", "P1_SHAPE", "as_images", "as_p1"]

DIGITS_OF_P1 = (1, 3, 7, 8)
P1_SHAPE = (24_989, 784)
_N_TRAIN = 60_000
_MNIST = ArraysFile(
    "mnist/mnist.npz",
    "796354bf1a5bdb3f752e23f487245288f2c35b1e0bc343e07448cffbb5f56624",
    dict.fromkeys(("x_train", "y_train", "x_test", "y_test"), "uint8"),
)


def _from_openml() -> Mapping[str, dict[str, np.ndarray]]:
    table = openml(554)
    labels = table.pop("class").astype(int).to_numpy()
    images = table.to_numpy().reshape(-1, 28, 28)
    return {
        _MNIST.path: {
            "x_train": images[:_N_TRAIN],
            "y_train": labels[:_N_TRAIN],
            "x_test": images[_N_TRAIN:],
            "y_test": labels[_N_TRAIN:],
        }
    }


MNIST = DataSet(
    name="mnist",
    files=(_MNIST,),
    assemble=lambda arrays: arrays,
    sources=(Source("OpenML 554", _from_openml),),
)


def as_p1(
    raw: Mapping[str, np.ndarray],
    part: str,
    *,
    shape: tuple[int, int] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Take the digits 1, 3, 7 and 8, pixels from 0 to 1.

    Parameters
    ----------
    raw : mapping of arrays
        What `load("mnist")` gives.
    part : {"train", "test"}
    shape : (int, int) or None
        What must come out; by default P1 Table II for the training part of MNIST itself.

    Returns
    -------
    X : array (n, pixels)
    y : array (n,) of digits
    """
    images, labels = raw[f"x_{part}"], raw[f"y_{part}"]
    chosen = np.isin(labels, DIGITS_OF_P1)
    X = images[chosen].reshape(int(chosen.sum()), -1) / 255
    if part == "train" and shape is None and len(labels) == _N_TRAIN:
        shape = P1_SHAPE
    refuse_other_shape("mnist", X.shape, shape)
    return X, labels[chosen]


def as_images(
    raw: Mapping[str, np.ndarray], part: str, *, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw some images of all ten digits, as a convolution takes them.

    Parameters
    ----------
    raw : mapping of arrays
        What `load("mnist")` gives.
    part : {"train", "test"}
    n : int
    rng : Generator

    Returns
    -------
    X : array (n, 1, 28, 28), from 0 to 1, in single precision
    y : array (n,) of digits
    """
    images, labels = raw[f"x_{part}"], raw[f"y_{part}"]
    rows = rng.choice(len(labels), n, replace=False)
    X = (images[rows, None] / 255).astype(np.float32)
    return X, labels[rows].astype(np.int64)
