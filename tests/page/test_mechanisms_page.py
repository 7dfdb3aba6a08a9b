# SPDX-License-Identifier: Apache-2.0
"""The report of several mechanisms in a real browser: the chart with its two limits, what fits on the first
screen, and the same answer as `decide` in Python."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from epsilens.decision import decide
from epsilens.document import DecisionDocument
from epsilens.show.report_data import mechanism_data
from epsilens.whatif import LossChangeEstimate

pytestmark = pytest.mark.slow

QUESTION = {"label": "affair", "data": "survey.csv"}
SCREEN = {"width": 1280, "height": 800}
PHONE = {"width": 375, "height": 667}


@pytest.fixture(scope="module")
def document(build: ModuleType) -> DecisionDocument:
    return build.make_comparison(warnings=["dp-sgd would take long and was not compared."])


# --- The same answer as in Python ---

N_TABLES = 40
ASKED = (
    {},
    {"max_advantage": 0.2},
    {"max_advantage": 0.004},
    {"max_attack_rate": 0.78},
    {"max_loss_increase": 0.02},
    {"max_accuracy_loss": 0.8},
    {"max_accuracy_loss": 0.01},
    {"max_loss_increase": 0.05, "max_advantage": 0.3},
    {"max_loss_increase": 0.01, "max_attack_rate": 0.76},
    {"max_accuracy_loss": 1.5, "max_attack_rate": 0.9},
    {"max_accuracy_loss": 0.3, "max_advantage": 0.05},
)


def random_case(
    build: ModuleType, rng: np.random.Generator, asked: dict[str, float]
) -> tuple[DecisionDocument, dict[str, Any]]:
    """Decide on random costs, some of which failed or are not known, and give what the page is asked."""
    grid = np.sort(rng.choice([0.1, 0.3, 0.5, 1.0, 1.7, 3.0, 5.0, 8.0], size=5, replace=False))

    def cost(**settings: object) -> LossChangeEstimate:
        made = build.make_whatif(
            epsilons=grid.tolist(),
            settings={"protect": ["affair"], **settings},
            untrusted_below=rng.choice([0.0, 0.4, 20.0], p=[0.6, 0.3, 0.1]),
            interval=bool(rng.random() < 0.8),
        )
        made = build.scaled(made, rng.uniform(0.02, 1.0))
        return LossChangeEstimate(made, tuple(np.empty(0) for _ in made.cells))

    def runs(epsilon: float, level: float) -> dict[str, np.ndarray]:
        found = {"loss": level / epsilon + 0.5 * level * rng.normal(size=25)}
        if rng.random() < 0.8:
            found["accuracy"] = -0.6 * found["loss"] + 0.001 * rng.normal(size=25)
        return found

    names = rng.permutation(build.ALL_OTHERS)[: rng.integers(1, 5)].tolist()
    is_exact = bool(rng.random() < 0.8)
    others = []
    for name in names:
        level = rng.uniform(0.001, 0.02)
        kind = "record" if rng.random() < 0.6 else "answer"
        changes = [runs(epsilon, level) for epsilon in grid]
        others.append(build.make_compared(name, grid, changes, protects=kind, is_exact=is_exact))
    by_record = any(one.curve.protects == "record" for one in others)
    named = None
    if rng.random() < 0.3:
        # Among them is always one that may be recommended.
        named = ["randomised-response", *names[:1]]
    protects = "record" if by_record and named is None and rng.random() < 0.3 else "answer"
    trust = "curator" if protects == "record" or rng.random() < 0.7 else "nobody"
    risk = build.make_risk(epsilons=grid.tolist())
    corrected = cost(correction="forward") if rng.random() < 0.5 else None
    found = decide(
        cost(),
        risk,
        others=others,
        corrected=corrected,
        trust=trust,
        protects=protects,
        named=named,
        **asked,
    ).document
    return found, {"trust": trust, "protects": protects, "named": named, "isCostKnown": is_exact}


def page_limits(asked: dict[str, float]) -> dict[str, Any]:
    """Return limits as the page reads them from its boxes."""
    cost = attack = None
    if "max_loss_increase" in asked:
        cost = {"end": "high", "limit": asked["max_loss_increase"], "kind": "loss"}
    if "max_accuracy_loss" in asked:
        mistakes = 10 * asked["max_accuracy_loss"]
        cost = {"end": "mistakes_high", "limit": mistakes, "kind": "mistakes"}
    if "max_attack_rate" in asked:
        attack = {"end": "ceiling_value", "limit": asked["max_attack_rate"], "kind": "rate"}
    if "max_advantage" in asked or cost is None is attack:
        limit = asked.get("max_advantage", 0.1)
        attack = {"end": "advantage_value", "limit": limit, "kind": "advantage"}
    return {"cost": cost, "attack": attack}


def finite(value: Any) -> Any:
    """Return data as JSON knows them."""
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def test_the_limits_lead_to_what_decide_recommends(browser: Any, build: ModuleType) -> None:
    """Hundreds of random tables: mechanism and ε are the same, and so is the nearest miss."""
    rng = np.random.default_rng(0)
    wanted, asked_of_page = [], []
    for _ in range(N_TABLES):
        for asked in ASKED:
            found, options = random_case(build, rng, asked)
            chosen = found.recommendation
            wanted.append([chosen.mechanism, chosen.epsilon])
            asked_of_page.append(
                {"curves": finite(mechanism_data(found)), "limits": page_limits(asked)}
                | {"options": options}
            )
    templates = Path(sys.modules["epsilens.show"].__file__).parent / "templates"
    page = browser.new_page()
    solved = page.evaluate(
        f"""cases => {{
            {(templates / "rule.js").read_text("utf-8")}
            return cases.map(({{ curves, limits, options }}) => {{
                const found = decisionRule.choose(curves, limits, options);
                return [found.curve.name, found.cell?.budget ?? null];
            }});
        }}""",
        asked_of_page,
    )
    page.close()
    assert len({name for name, _ in wanted}) == 7
    assert 0.1 < np.mean([epsilon is None for _, epsilon in wanted]) < 0.6
    wrong = [
        (found, right, asked["limits"], asked["options"])
        for found, right, asked in zip(solved, wanted, asked_of_page, strict=True)
        if found != right
    ]
    assert wrong == []
