"""A number that failed its own check is shown as an answer nowhere."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from rich.console import Console

from epsilens.document import DecisionDocument, WhatIfCell, WhatIfDocument, to_json
from epsilens.document.clauses import unanswered_text
from epsilens.document.sentences import assessment_paragraph, cell_sentence, decision_sentence
from epsilens.show import (
    comparison_chart,
    cost_chart,
    decision_chart,
    document_table,
    page_chart,
    whatif_sentence,
    write_report,
)
from epsilens.show.notebook import decision_html, whatif_html
from epsilens.show.report_data import risk_at
from epsilens.whatif import LossChangeEstimate

WRONG = re.compile(r"[-−]77\.[78]|[-−]777\.|[-−]0\.777")
"""Every wrong number: as it is, in points, and rounded."""


def spoilt(cost: WhatIfDocument) -> WhatIfDocument:
    """Give the small budgets wrong numbers that failed their checks."""
    wrong = {
        "loss_change": -777.77,
        "loss_change_low": -777.78,
        "loss_change_high": -777.76,
        "accuracy_change": -0.7777,
        "auc_change": -777.77,
        "loss_gap_change": -777.77,
        "accuracy_gap_change": -0.7777,
        "trusted": False,
    }

    def is_wrong(epsilon: float | None) -> bool:
        return epsilon is not None and epsilon < 0.5

    cells = [
        cell.model_copy(update=wrong) if is_wrong(cell.epsilon) else cell for cell in cost.cells
    ]
    ends = {"low": -0.7777, "high": -0.7776}
    intervals = [
        item.model_copy(update=ends) if is_wrong(item.epsilon) else item for item in cost.intervals
    ]
    return cost.model_copy(update={"cells": cells, "intervals": intervals})


@pytest.fixture
def cost(build: ModuleType) -> WhatIfDocument:
    return spoilt(build.make_whatif(groups=["all", "women"]))


@pytest.fixture
def decision(build: ModuleType) -> DecisionDocument:
    made = build.make_decision(groups=["all", "women"])
    return made.model_copy(update={"cost": spoilt(made.cost)})


def printed(thing: object) -> str:
    console = Console(width=200, file=io.StringIO())
    console.print(thing)
    return console.file.getvalue()


def failed(document: WhatIfDocument) -> WhatIfCell:
    return next(cell for cell in document.cells if not cell.trusted)


COSTS: dict[str, Callable[[WhatIfDocument], str]] = {
    "table": lambda cost: printed(document_table(cost, max_rows=60)),
    "gaps": lambda cost: printed(document_table(cost, place=1, max_rows=60)),
    "sentence": whatif_sentence,
    "sentence of a cell": lambda cost: cell_sentence(cost, failed(cost)),
    "chart": lambda cost: json.dumps(cost_chart(cost).to_dict()),
    "chart of the accuracy": lambda cost: json.dumps(
        cost_chart(cost, outcome="accuracy").to_dict()
    ),
    "chart of the gap": lambda cost: json.dumps(cost_chart(cost, outcome="loss_gap").to_dict()),
    "chart of the page": lambda cost: json.dumps(page_chart(cost, epsilon=1.0)),
    "comparison": lambda cost: json.dumps(
        comparison_chart([("a", cost), ("b", cost)], width=640).to_dict()
    ),
    "notebook": lambda cost: whatif_html(cost, max_rows=60),
    "repr": lambda cost: repr(LossChangeEstimate(cost, tuple(np.empty(0) for _ in cost.cells))),
}
DECISIONS: dict[str, Callable[[DecisionDocument], str]] = {
    "table": lambda one: printed(document_table(one, max_rows=60)),
    "notebook": lambda one: decision_html(one, max_rows=60),
    "chart": lambda one: json.dumps(decision_chart(one).to_dict()),
    "sentence": lambda one: decision_sentence(
        one, failed(one.cost), risk_at(one, failed(one.cost))
    ),
    "assessment": lambda one: assessment_paragraph(
        one, failed(one.cost), risk_at(one, failed(one.cost)), data=None
    ),
}


@pytest.mark.parametrize("surface", COSTS)
def test_no_surface_of_a_cost_shows_it(cost: WhatIfDocument, surface: str) -> None:
    shown = COSTS[surface](cost)
    assert shown
    assert not WRONG.search(shown)


@pytest.mark.parametrize("surface", DECISIONS)
def test_no_surface_of_a_decision_shows_it(decision: DecisionDocument, surface: str) -> None:
    shown = DECISIONS[surface](decision)
    assert shown
    assert not WRONG.search(shown)


@pytest.mark.parametrize("kind", ["cost", "decision"])
def test_no_report_shows_it(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    document = request.getfixturevalue(kind)
    page = write_report(document, tmp_path / "page.html").read_text(encoding="utf-8")
    # The file that can be downloaded from the page has every number.
    kept = re.search(r'<script type="application/json" id="document">.*?</script>', page)
    assert WRONG.search(kept.group())
    page = page.replace(kept.group(), "")
    # The library that draws has digits of its own.
    bundle = max(re.findall(r"<script>.*?</script>", page, flags=re.DOTALL), key=len)
    assert not WRONG.search(page.replace(bundle, ""))


def test_the_document_and_the_frame_keep_it(cost: WhatIfDocument) -> None:
    assert '"loss_change": -777.77' in to_json(cost)
    estimate = LossChangeEstimate(cost, tuple(np.empty(0) for _ in cost.cells))
    frame = estimate.to_frame()
    assert (frame.loc[~frame["trusted"], "loss_change"] == -777.77).all()


def test_a_report_without_any_estimate_says_so(build: ModuleType, tmp_path: Path) -> None:
    document = build.make_whatif(untrusted_below=99.0, method="influence")
    page = write_report(document, tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<span id="verdict">no estimate</span>' in page
    assert (
        "the first-order estimate failed its checks. The method `exact` is more accurate." in page
    )


@pytest.mark.parametrize(
    ("failing", "words"),
    [
        ({0.1}, "at ε ≤ 0.1:"),
        ({0.1, 0.5}, "at ε ≤ 0.5:"),
        ({2.0}, "at ε ≥ 2:"),
        ({0.5}, "at 1 of 4 ε:"),
        ({0.1, 0.5, 1.0, 2.0}, "at any ε of the grid:"),
    ],
)
def test_where_there_is_no_estimate(build: ModuleType, failing: set[float], words: str) -> None:
    document = build.make_whatif(epsilons=[0.1, 0.5, 1.0, 2.0])
    cells = [
        cell.model_copy(update={"trusted": cell.epsilon not in failing}) for cell in document.cells
    ]
    assert words in unanswered_text(document.model_copy(update={"cells": cells}))


def test_groups_that_differ_are_named(build: ModuleType) -> None:
    document = build.make_whatif(groups=["all", "women"], epsilons=[0.1, 1.0])
    cells = [
        cell.model_copy(update={"trusted": cell.group == "all" or cell.epsilon > 0.1})
        for cell in document.cells
    ]
    said = unanswered_text(document.model_copy(update={"cells": cells}))
    assert said.startswith("No estimate at ε ≤ 0.1 for the group “women”: one run may")
    assert unanswered_text(document) is None
