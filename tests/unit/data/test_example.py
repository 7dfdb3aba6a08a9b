# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from epsilens.data.files import load_survey


def test_the_survey_has_a_readable_binary_label() -> None:
    survey = load_survey()
    assert len(survey) == 6366
    assert survey["affair"].value_counts().to_dict() == {"no": 4313, "yes": 2053}
    assert "affairs" not in survey
    assert not survey.isna().any().any()
