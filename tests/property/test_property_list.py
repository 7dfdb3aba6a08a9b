# SPDX-License-Identifier: Apache-2.0
"""The laws that this house keeps alive, and the test that each of them is.

A law without a test, or with one that asks for no examples of its own, is not alive: this fails then.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent

LAWS: dict[str, dict[str, tuple[str, ...]]] = {
    "towards ε = 0 an answer is changed with probability (k − 1)/k": {
        "test_channels.py": ("test_towards_epsilon_0_an_answer_is_changed_with_k_minus_1_over_k",),
    },
    "ε = ∞ changes nothing": {
        "test_channels.py": ("test_an_infinite_epsilon_changes_nothing",),
        "test_whatif_laws.py": ("test_an_infinite_epsilon_costs_nothing",),
    },
    "rows of a channel sum to 1 and no ratio exceeds e^ε": {
        "test_channels.py": (
            "test_rows_sum_to_one_and_no_ratio_exceeds_epsilon",
            "test_what_is_drawn_keeps_epsilon_exactly",
            "test_bits_keep_epsilon_exactly",
            "test_whole_masses_are_the_channel",
        ),
    },
    "what an attack can reach rises with ε": {
        "test_risk_laws.py": (
            "test_the_ceiling_of_an_answer_rises_with_epsilon",
            "test_the_ceiling_of_membership_rises_with_epsilon",
            "test_no_guess_from_a_report_beats_the_ceiling",
        ),
    },
    "an audit's bound exceeds the true ε no more often than its significance": {
        "test_audit_laws.py": (
            "test_a_bound_exceeds_the_true_epsilon_no_more_often_than_its_significance",
            "test_a_corrected_bound_exceeds_the_true_epsilon_no_more_often_either",
            "test_no_attacker_beats_the_path_theorem_on_enumerated_mechanisms",
        ),
    },
    "a group's first-order influence is the sum of its points'": {
        "test_whatif_laws.py": (
            "test_a_groups_first_order_influence_is_the_sum_of_its_points",
            "test_a_groups_first_order_influence_is_the_sum_of_its_parts",
        ),
    },
    "relabelling classes permutes values": {
        "test_channels.py": ("test_relabelling_categories_permutes_a_channel_and_its_shares",),
        "test_whatif_laws.py": (
            "test_renaming_the_classes_changes_nothing",
            "test_relabelling_several_classes_permutes_their_coefficients_and_moves_no_cost",
        ),
        "test_valuation_laws.py": (
            "test_renaming_two_classes_changes_no_score",
            "test_renaming_several_classes_changes_no_score",
        ),
    },
    "channels compose as a·a, and the budgets of columns add up": {
        "test_channels.py": (
            "test_composition_multiplies_a",
            "test_degrading_equals_a_direct_release_in_law",
            "test_relaxing_never_costs_more_than_the_new_epsilon",
            "test_budgets_of_columns_add_up",
        ),
        "test_risk_laws.py": ("test_two_answers_are_exposed_as_one_at_the_sum_of_their_budgets",),
    },
    "saving and loading a document is the identity": {
        "test_document.py": (
            "test_saving_and_loading_is_the_identity",
            "test_saving_and_loading_is_the_identity_for_every_kind",
        ),
    },
}


def laws_of(file: str) -> set[str]:
    """Name the tests of a file for which hypothesis makes the examples."""
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(
            isinstance(mark, ast.Call) and getattr(mark.func, "id", None) == "given"
            for mark in node.decorator_list
        )
    }


@pytest.mark.parametrize("law", LAWS)
def test_every_law_is_alive(law):
    for file, tests in LAWS[law].items():
        assert set(tests) <= laws_of(file), f"{law}: a test has gone from {file}"
