# SPDX-License-Identifier: Apache-2.0
"""The library's messages name what is typed in a shell, and say the same thing once."""

from __future__ import annotations

import pytest

from epsilens.show.command_words import in_command_words

SAID_IN_SHELL = {
    "`epsilon` must be greater than 0, got nan. Use `math.inf` for no privacy.": (
        "`--epsilon` must be greater than 0, got nan. Use `inf` for no privacy."
    ),
    "`epsilon of column a b` must be greater than 0.": (
        "`--epsilon` of column a b must be greater than 0."
    ),
    "by other columns, or pass dependent_groups='warn' to look anyway.": (
        "by other columns, or add `--allow-dependent-groups` to look anyway."
    ),
    "randomises the label only. Use protect=['smokes'].": (
        "randomises the label only. Use `--protect smokes`."
    ),
    'Use protect=["it\'s"].': "Use `--protect it's`.",
    "Needs nothing but method='exact'.": "Needs nothing but `--method exact`.",
    # `decide` estimates too, and has no `--method`.
    "Train again to be sure: method='retrain'.": (
        "Train again to be sure: `epsilens whatif --method retrain`."
    ),
    "Take method='exact', or train again to be sure: method='retrain'.": (
        "Take `epsilens whatif --method exact`, or train again to be sure: "
        "`epsilens whatif --method retrain`."
    ),
    "Declare it with `categories`, or by a categorical dtype.": "Declare it with `--categories`.",
    "a yes/no question (on the command line: --positive VALUE), or": (
        "a yes/no question (`--positive VALUE`), or"
    ),
    # Of the commands that say so, one has the option.
    "where they lie. Declare them with `scales`.": (
        "where they lie. Declare them with `epsilens federate schema --scale`."
    ),
    "`max_loss_increase` must be finite": "`--max-loss-increase` must be finite",
    "`random_state` must be a whole number": "`--seed` must be a whole number",
    # What the user typed stays as it was typed.
    "the group expression `label` compares column 'label'": (
        "the group expression `label` compares column 'label'"
    ),
    "`--bins` must name a column, got 'epsilon'": "`--bins` must name a column, got 'epsilon'",
}


@pytest.mark.parametrize("said", SAID_IN_SHELL)
def test_messages_name_what_is_typed_in_a_shell(said: str) -> None:
    assert in_command_words(said) == SAID_IN_SHELL[said]
    assert in_command_words(SAID_IN_SHELL[said]) == SAID_IN_SHELL[said]
