# SPDX-License-Identifier: Apache-2.0
"""Messages on the page: a setting is called by the label of its field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from epsilens.errors import COMMAND_LINE, Surface

WITHHELD = (
    "a message is withheld because it may name columns, groups or answers. Start without "
    "`--anonymous` to read it."
)

FIELDS = {
    "label": "the column to predict",
    "protect": "the columns to randomise",
    "positive": "the answer that counts as yes",
    "group": "the group",
    "groups": "the group",
    "drop": "left out",
    "sample_weight": "the weight of a row",
    "weight": "the weight of a row",
    "missing": "missing answers",
    "categorical": "use it as categories",
    "categories": "everybody may know the possible answers",
    "bins": "bins",
    "epsilon": "the budgets",
    "delimiter": "the delimiter",
    "encoding": "the encoding",
    "model": "the kind of model",
    "estimator": "the kind of model",
    "regularisation": "the regularisation",
    "correction": "forward correction",
    "max_loss_increase": "the largest acceptable cost",
    "max_accuracy_loss": "the largest acceptable cost",
    "max_attack_rate": "the attack limit",
    "max_advantage": "the attack limit",
    "test": "the test data",
    "trust": "who may see the true answers",
    "measured": "let the attack that was tried meet the attack limit",
    "shadow_models": "the number of attacked models",
    "random_state": "the seed",
    "seed": "the seed",
    "identity": "the column that names people",
    "alpha": "the share of what identifies people that must go",
    "test_share": "the share set aside for testing",
    "dependent_groups": "allow groups that give the answer away",
}
"""Arguments, and the labels of the fields that set them."""

_AT_THE_START = frozenset({"anonymous", "max_upload", "state", "port"})
"""Settings of `epsilens serve` itself, which are typed in a terminal."""

_BOXES = frozenset({"dependent_groups"})
"""Settings that are a box to tick, without a value."""


class _Page:
    """The page: fields in quotation marks. What it has no field for is for the terminal."""

    kind: Literal["python", "command", "page"] = "page"

    def setting(self, name: str, value: str | float | Sequence[str] | None) -> str:
        if name in _AT_THE_START:
            return COMMAND_LINE.setting(name, value)
        label = FIELDS.get(name, name.replace("_", " "))
        ends = "" if name in FIELDS else " (in the terminal)"
        if value is None or isinstance(value, bool) or name in _BOXES:
            return f"“{label}”{ends}"
        shown = value if isinstance(value, str | int | float) else ", ".join(value)
        return f"“{label}: {shown}”{ends}"


PAGE: Surface = _Page()
