# SPDX-License-Identifier: Apache-2.0
"""Decisions, pages and pictures, drawn from the documents of studies alone."""

from __future__ import annotations

import base64
import math
import tempfile
from pathlib import Path
from typing import Any, cast

from epsilens.app.questions import Limits, Question
from epsilens.app.surface import PAGE
from epsilens.document import DecisionDocument, load_document, to_dict
from epsilens.document.wording import own_budget
from epsilens.errors import InputError
from epsilens.notes import Note

Task = dict[str, Any]
Answer = dict[str, Any]


def decide_on(task: Task) -> DecisionDocument:
    """Join the cost, the attack and the mechanisms of a study, and decide by its limits."""
    from epsilens.decision.others import Comparison, Previewed
    from epsilens.decision.release_command import with_command

    limits = Limits.model_validate(task["limits"])
    cost, risk = (cast(Any, load_document(task[part])) for part in ("cost", "risk"))
    kept = task.get("mechanisms")
    if kept is None:
        said = "other mechanisms were not compared when this was asked. Ask the question again to compare them."
        alone = Comparison(
            trust="nobody", protects="answer", names=(), named=None, with_correction=False
        )
        previewed = Previewed(alone, notes=(Note("asked-before", said),))
    else:
        previewed = Previewed.from_dict(kept)
    found = previewed.decide(cost, risk, **limits.rules()).document
    if kept is None or task["anonymous"]:
        return found
    question = Question.model_validate(task["question"])
    return with_command(
        found,
        task["name"],
        label=question.label,
        answers=kept.get("answers") or {question.label: kept["classes"]},
        bins=[f"{name}={text}" for name, text in question.bins.items()],
        **question.model_dump(
            include={"drop", "categorical", "missing", "positive", "delimiter", "encoding"}
        ),
    )


def latest_of(task: Task) -> tuple[Any, dict[str, object] | None]:
    """Return the latest document of a study, and a recommendation where it has none of its own."""
    from epsilens.whatif import LossChangeEstimate

    cost: Any = load_document(task["cost"])
    if task.get("risk") is not None:
        try:
            return decide_on(task), None
        except InputError as error:
            said = f"the attack is not shown: {error.render(PAGE)}"
            notes = [Note("attack-not-shown", said), *cost.notes]
            cost = cost.model_copy(update={"notes": notes})
    if task["is_preview"]:
        n_budgets = len({own_budget(cell) for cell in cost.cells})
        preview = Note(
            "preview",
            f"this is a preview at {n_budgets} budget{'s' if n_budgets > 1 else ''}, with rough "
            "ranges. The cost at all budgets takes its place when it arrives.",
        )
        cost = cost.model_copy(update={"notes": [preview, *cost.notes]})
    most = Limits.model_validate(task["limits"]).max_loss_increase
    if most is None:
        return cost, None
    choice = LossChangeEstimate(cost).choose(max_loss_increase=most, group=cost.cells[0].group)
    if task["is_preview"] and not choice.holds:
        return cost, None
    return cost, {
        "epsilon": choice.epsilon,
        "holds": choice.holds,
        "sentence": choice.sentence,
        "max_loss_increase": most,
    }


def write_decision(task: Task) -> Answer:
    """Return the decision that the documents of a study lead to."""
    return {"document": to_dict(decide_on(task))}


def write_latest(task: Task) -> Answer:
    """Return the latest document of a study, and what it recommends."""
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
    from epsilens.show import document_chart, mask_chart

    if "mask" in task:
        return _picture(mask_chart(cast(Any, load_document(task["mask"]))), task["format"])
    document, recommendation = latest_of(task)
    accepted: Any = None if recommendation is None else recommendation["max_loss_increase"]
    return _picture(document_chart(document, max_loss_increase=accepted), task["format"])


def write_mask(task: Task) -> Answer:
    """Return what the page shows of a mask: sentences, columns, accuracies, notes and the chart."""
    from epsilens.document.view import view
    from epsilens.document.wording import percent_text, sentence_case
    from epsilens.show import mask_chart

    document = cast(Any, load_document(task["mask"]))
    shown = view(document)
    chart = mask_chart(document, width=task["width"], height=task["width"] // 2)
    # How many features are masked stands in the first sentence.
    table = shown.tables[0].select(("masking", "utility_accuracy", "identity_accuracy"))
    return {
        "sentences": list(shown.sentences),
        # The name of a column stays as it is.
        "notes": [
            note.text if note.has_names else sentence_case(note.text) for note in document.notes
        ],
        "masked": document.masked,
        "kept": document.kept,
        "utility_kept": percent_text(document.utility_kept),
        "privacy_kept": percent_text(document.privacy_kept),
        "accuracies": {
            "title": table.title,
            "notes": list(table.notes),
            "headings": table.titles,
            "lines": [[row.text for row in line.rows] for line in table.lines],
        },
        "chart": base64.b64decode(_picture(chart, "svg")["content"]).decode("utf-8"),
    }


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
