# SPDX-License-Identifier: Apache-2.0
"""Studies side by side as a table: every number as text, rounded as in the report of each."""

from __future__ import annotations

from collections.abc import Mapping

from epsilens.document import at_most_text
from epsilens.show.report_words import NOTHING_HIDDEN
from epsilens.show.rounding import (
    NOTHING,
    format_change,
    format_count,
    format_epsilon,
    format_loss,
    loss_decimals,
)

__all__ = ["comparison_texts"]


def comparison_texts(numbers: Mapping[str, object]) -> dict[str, str]:
    """Give the numbers of one study as the text that its report shows.

    Parameters
    ----------
    numbers : mapping
        `n_train`, `baseline_loss`, `epsilon`, `loss_change`, `loss_change_high`,
        `answer_inference_high` and `answer_inference_ceiling` as JSON has them: a number, "inf", or
        None where it is not known.

    Returns
    -------
    dict
        A text for each; what nothing exceeds is rounded up.

    Examples
    --------
    >>> found = comparison_texts({"n_train": 4774, "baseline_loss": 0.54, "epsilon": "inf",
    ...     "loss_change": 0.02, "loss_change_high": None, "answer_inference_high": 0.7301,
    ...     "answer_inference_ceiling": 0.8731})
    >>> found["epsilon"], found["loss_change"], found["answer_inference_ceiling"]
    ('∞', '+0.0200', '87.4%')
    """
    known = {name: None if value is None else float(str(value)) for name, value in numbers.items()}
    decimals = loss_decimals(known["baseline_loss"])
    ceiling = _at_most(known["answer_inference_ceiling"])
    return {
        "n_train": format_count(int(known["n_train"] or 0)),
        "baseline_loss": format_loss(known["baseline_loss"], decimals=decimals),
        "epsilon": format_epsilon(known["epsilon"]),
        "loss_change": format_change(known["loss_change"], decimals=decimals),
        "loss_change_high": format_change(known["loss_change_high"], decimals=decimals),
        "answer_inference_high": _at_most(known["answer_inference_high"]),
        "answer_inference_ceiling": "nothing is proven" if ceiling == NOTHING_HIDDEN else ceiling,
    }


def _at_most(share: float | None) -> str:
    return NOTHING if share is None else at_most_text(share)
