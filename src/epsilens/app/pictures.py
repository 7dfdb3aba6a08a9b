# SPDX-License-Identifier: Apache-2.0
"""Decisions, pages and pictures, drawn from the documents of studies alone."""

from __future__ import annotations

import base64
import math
import tempfile
from pathlib import Path
from typing import Any

from epsilens.app.conclusions import decide_on, latest_of
from epsilens.app.questions import Question

Task = dict[str, Any]
Answer = dict[str, Any]


def write_decision(task: Task) -> Answer:
    """Return the decision that the documents of a study lead to."""
    from epsilens.document import to_dict

    return {"document": to_dict(decide_on(task))}


def write_latest(task: Task) -> Answer:
    """Return the latest document of a study, and what it recommends."""
    from epsilens.document import DecisionDocument, to_dict

    document, recommendation = latest_of(task)
    found: Answer = to_dict(document)
    if isinstance(document, DecisionDocument):
        return {"document": found, "recommendation": found["recommendation"]}
    if recommendation is not None and recommendation["epsilon"] == math.inf:
        recommendation = {**recommendation, "epsilon": "inf"}
    return {"document": found, "recommendation": recommendation}


def write_page(task: Task) -> Answer:
    """Return the report of a study as far as it has come."""
    from epsilens.show import write_report

    document, recommendation = latest_of(task)
    question = Question.model_validate(task["question"])
    named: dict[str, object] = {"label": question.label, "data": task["name"]}
    with tempfile.TemporaryDirectory() as folder:
        written = write_report(
            document,
            Path(folder) / "page.html",
            question=named,
            recommendation=recommendation,
            command=None if task["anonymous"] else task["command"],
        )
        return {"page": written.read_text(encoding="utf-8")}


def draw_chart(task: Task) -> Answer:
    """Return the chart of a study as a picture."""
    from epsilens.document import DecisionDocument
    from epsilens.show import cost_chart, decision_chart

    document, recommendation = latest_of(task)
    accepted: Any = None if recommendation is None else recommendation["max_loss_increase"]
    chart: Any = (
        decision_chart(document)
        if isinstance(document, DecisionDocument)
        else cost_chart(document, max_loss_increase=accepted)
    )
    return _picture(chart, task["format"])


def draw_comparison(task: Task) -> Answer:
    """Return the curves of several studies in one picture."""
    from epsilens.show import comparison_chart

    studies = [(study["name"], latest_of(study["latest"])[0]) for study in task["studies"]]
    chart = comparison_chart(studies, width=task["width"], is_titled=task["titled"])
    return _picture(chart, task["format"])


def _picture(chart: Any, format: str) -> Answer:
    from epsilens.show import save_chart

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"chart.{format}"
        save_chart(chart, path)
        return {"content": base64.b64encode(path.read_bytes()).decode("ascii")}
