# SPDX-License-Identifier: Apache-2.0
"""Where no limit is given: the rise of the loss that leaves most of what a model gains over guessing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epsilens.data import Prepared

__all__ = ["KEPT_GAIN", "NO_LIMIT", "kept_gain", "kept_gain_note"]

KEPT_GAIN = 0.9
"""The share of what the model gains over guessing that is kept, where no limit is given."""
NO_LIMIT = "no limit was given"
"""How a warning begins that stands in a document whose limit nobody set."""


def kept_gain(prepared: Prepared, loss: float | None) -> float | None:
    """Return the rise of the loss that leaves most of what a model gains over guessing.

    Guessing by the shares of the answers in the training data loses their cross-entropy on the test
    data; a number is guessed by its mean there. A tenth of the distance may be lost.

    Parameters
    ----------
    prepared : Prepared
        The data.
    loss : float or None
        Of the model on the test data.

    Returns
    -------
    float or None
        None if the model gains nothing.

    Examples
    --------
    >>> from epsilens.data import load_survey, prepare
    >>> kept_gain(prepare(load_survey(), label="affair"), 0.55)
    0.00785
    """
    import numpy as np
    import pandas as pd

    train = (
        np.ones(len(prepared.y_train)) if prepared.sample_weight is None else prepared.sample_weight
    )
    if prepared.label_categories:
        answers = prepared.y_train.to_numpy()
        totals = pd.Series(np.asarray(train, dtype=float)).groupby(answers).sum()
        shares = pd.Series(prepared.y_test.to_numpy()).map(totals / totals.sum())
        lost = -np.log(shares.to_numpy(dtype=np.float64))
    else:
        mean = float(np.average(prepared.y_train, weights=train))
        lost = (np.asarray(prepared.y_test, dtype=np.float64) - mean) ** 2
    guessed = float(np.average(lost, weights=prepared.sample_weight_test))
    if loss is None or not guessed - loss > 0:
        return None
    return float(f"{(1.0 - KEPT_GAIN) * (guessed - loss):.3g}")


def kept_gain_note(rise: float, *, guess: str = "the shares of the answers") -> str:
    """Say that a limit was chosen, and by what.

    Examples
    --------
    >>> kept_gain_note(0.0079)
    'no limit was given: the loss may rise by 0.0079, so that the model keeps 90 % of what it gains over guessing by the shares of the answers.'
    """
    return (
        f"{NO_LIMIT}: the loss may rise by {rise:.3g}, so that the model keeps "
        f"{100 * KEPT_GAIN:.0f} % of what it gains over guessing by {guess}."
    )
