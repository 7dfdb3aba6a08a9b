# SPDX-License-Identifier: Apache-2.0
"""A curve of risk shows itself: the views are those of its document."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from epsilens.document import load_document
from epsilens.risk.result import RiskCurve
from epsilens.show import risk_chart


@pytest.fixture
def curve(build: ModuleType) -> RiskCurve:
    return RiskCurve(build.make_risk(), attacks=(), targets=np.arange(0))


def test_it_draws_itself(curve: RiskCurve) -> None:
    assert curve.plot().to_dict() == risk_chart(curve.document).to_dict()


def test_a_notebook_shows_a_table_and_what_to_know(curve: RiskCurve) -> None:
    page = curve._repr_html_()
    assert page.count("<tr>") == 11
    assert "How often an attacker guesses the answer “affair”" in page
    assert "not private itself" in page


def test_it_picks_the_largest_budget_within_a_feared_rate(curve: RiskCurve) -> None:
    choice = curve.choose(max_attack_rate=0.85)
    assert choice.holds
    assert choice.rests_on == "proven"
    assert not curve.choose(max_attack_rate=0.72).holds
    assert curve.choose(max_attack_rate=0.72, measured=True).rests_on == "measured"


def test_its_json_is_its_document(curve: RiskCurve, tmp_path) -> None:
    curve.to_json(tmp_path / "risk.json")
    assert load_document(tmp_path / "risk.json") == curve.document
