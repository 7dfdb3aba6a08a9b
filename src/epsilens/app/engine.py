# SPDX-License-Identifier: Apache-2.0
"""The work behind the page: reads tables, asks studies, draws pages. Runs in a process of its own."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from epsilens._types import Progress
from epsilens.app.file_changes import look_at, seen
from epsilens.app.pictures import (
    draw_chart,
    draw_comparison,
    write_decision,
    write_latest,
    write_mask,
    write_page,
)
from epsilens.app.questions import Limits, Question, TableReading
from epsilens.app.surface import PAGE, WITHHELD
from epsilens.document.decision import TITLES
from epsilens.errors import ApproximationWarning, InputError, PrivacyLeakWarning, setting
from epsilens.notes import Note, distinct_notes, note_of_warning

if TYPE_CHECKING:
    from epsilens.data import Bins, TableFile
    from epsilens.data.expressions import Expression
    from epsilens.document import Baseline, MaskDocument, RiskDocument, WhatIfDocument
    from epsilens.study import Study


_D = TypeVar("_D", "WhatIfDocument", "RiskDocument", "MaskDocument")
Task = dict[str, Any]
Answer = dict[str, Any]

EXACT_SECONDS = 60.0
"""Planned time of the cost; the most accurate method that fits is used."""
RETRAINING_SECONDS = 60.0
"""Time for training again where an estimate of the cost failed its check."""
ATTACK_SECONDS = 120.0
"""Time for the attacked models, where each is trained as a whole."""
PREVIEW_SECONDS = 30.0
"""Planned time of the first answer. Plans are cautious: it takes a tenth of that or less, and a model of
so many columns that the exact method would be slow gets another one."""
PREVIEW_BUDGETS = 5
PREVIEW_DRAWS = 50
"""Runs that are drawn for each interval of the first answer: most of its time."""
QUICK = 4_000_000
"""Training rows × coefficients × groups up to which the whole curve takes about a second."""
LONGEST_NAME = 100
"""Letters of a category that are shown; a longer one is a text that somebody wrote."""
STEPS: dict[str, str] = {
    **dict.fromkeys(("influence", "newton", "exact"), "estimating the cost at every ε"),
    "retrain": "training the model again where the estimate failed its check",
    "attack": "attacking models that are trained on randomised answers",
    "training both models": "training a model for the prediction and one that recognises people",
    "explaining the task": "explaining the prediction",
    "explaining the identity": "explaining how people are recognised",
    **{name: f"trying {title}" for name, title in TITLES.items()},
}
"""Steps of long work, and what the page calls them. Others are plain words already."""
_KEPT = 4
"""Tables and trained models that are held for the next question."""


@dataclass(repr=False)
class Engine:
    """Answers tasks; what it has read and trained is kept for the next one."""

    tables: OrderedDict[str, TableFile] = field(default_factory=OrderedDict)
    studies: OrderedDict[str, Study] = field(default_factory=OrderedDict)

    def answer(self, task: Task, progress: Progress) -> Answer:
        """Do one task.

        Parameters
        ----------
        task : dict
            `task`, its name, and what it needs.
        progress : callable
            Called with (done, total, what).

        Raises
        ------
        InputError
            If the table or the question is not usable.
        """
        handlers: dict[str, Callable[[Task, Progress], Answer]] = {
            "ready": self._ready,
            "check": self._check,
            "forget": self._forget,
            "survey": self._survey,
            "inspect": self._inspect,
            "first-order": self._first_order,
            "preview": self._preview,
            "cost": self._cost,
            "attack": self._attack,
            "mask": self._mask,
        }
        # From documents alone.
        drawn: dict[str, Callable[[Task], Answer]] = {
            "decision": write_decision,
            "latest": write_latest,
            "page": write_page,
            "mask-answer": write_mask,
            "chart": draw_chart,
            "comparison": draw_comparison,
        }
        if task["task"] in drawn:
            return drawn[task["task"]](task)
        return handlers[task["task"]](task, progress)

    def _ready(self, task: Task, progress: Progress) -> Answer:
        """Load what takes a while, so that the first question does not wait for it."""
        import pandas as pd

        from epsilens.show import write_report
        from epsilens.study import Study

        ages = [float(20 + place % 40 + place / 100) for place in range(80)]
        people = pd.DataFrame({"age": ages, "says": ["no", "yes"] * 40})
        with _noted(), tempfile.TemporaryDirectory() as folder:
            cost = Study(people, label="says").cost(epsilon=[1.0, 2.0], method="exact", n_draws=20)
            write_report(cost.document, Path(folder) / "page.html")
        return {}

    def _check(self, task: Task, progress: Progress) -> Answer:
        from epsilens.app.uploads import check_content

        check_content(
            Path(task["path"]), wanted=task["wanted"], largest=task["largest"], name=task["name"]
        )
        return {}

    def _survey(self, task: Task, progress: Progress) -> Answer:
        from epsilens.data import load_survey, write_text

        write_text(load_survey().to_csv(index=False), task["path"])
        return {}

    def _forget(self, task: Task, progress: Progress) -> Answer:
        """Hold nothing any more of a table that was deleted."""
        for kept in (self.tables, self.studies):
            for key in [key for key in kept if task["path"] in json.loads(key)[0]]:
                del kept[key]
        return {}

    # --- Tables ---

    def _table(self, task: Task, reading: TableReading, of: str = "") -> TableFile:
        """Return a table of a task: its data, or with "test_" its test data."""
        from epsilens.data import read_table

        path, name = task[f"{of}path"], task[f"{of}name"]
        look = [path, seen(Path(path)), task["anonymous"]]
        key = json.dumps([look, reading.delimiter, reading.encoding])
        if key not in self.tables:
            try:
                table = read_table(
                    path,
                    delimiter=reading.delimiter,
                    encoding=reading.encoding,
                    name=None if task["anonymous"] else name,
                )
            except InputError:
                if task["anonymous"]:
                    raise InputError(WITHHELD) from None
                raise
            if task["anonymous"]:
                numbered = [f"column {place + 1}" for place in range(table.frame.shape[1])]
                frame = table.frame.set_axis(numbered, axis=1)
                table = replace(table, frame=frame, name=name, notes=(), missing_marks={})
            _keep(self.tables, key, table)
        return self.tables[key]

    def _inspect(self, task: Task, progress: Progress) -> Answer:
        from epsilens.data import describe_table, infer_schema, likely_label
        from epsilens.data.description import identity_columns
        from epsilens.data.expressions import compared_as
        from epsilens.document import to_dict
        from epsilens.show.suggestion import suggested_command

        reading = TableReading.model_validate(task["reading"])
        table = self._table(task, reading)
        schema = infer_schema(table.frame, categorical=reading.categorical, bins=_bins(reading))
        document = describe_table(
            table,
            schema,
            settings={"delimiter": table.delimiter, "encoding": table.encoding},
            suggestion=suggested_command(table, schema, source=task["name"]),
        )
        likely = likely_label(schema)
        identities, likely_identity = identity_columns(table.frame, schema)
        columns = [
            column.model_copy(update={"categories": _shown(column.categories, task)})
            for column in document.columns
        ]
        document = document.model_copy(update={"columns": columns})
        if task["anonymous"]:
            # The fingerprint could confirm a guess of the names.
            provenance = document.provenance.model_copy(update={"schema_fingerprint": None})
            document = document.model_copy(
                update={"provenance": provenance, "suggestion": None, "notes": []}
            )
        return {
            "document": to_dict(document),
            "format": table.format,
            "delimiter": table.delimiter,
            "encoding": table.encoding,
            "likely_label": None if likely is None else likely.name,
            "identities": identities,
            "likely_identity": likely_identity,
            "compared_as": [compared_as(table.frame[column.name]) for column in columns],
        }

    # --- Studies ---

    def _study(self, task: Task) -> tuple[Question, Study]:
        """Return the question and its study; one of the same model is asked about other groups."""
        from epsilens.study import Study

        question = Question.model_validate(task["question"])
        key = json.dumps([_seen(task), task["question"]], sort_keys=True)
        if key not in self.studies:
            table = self._table(task, question)
            groups = _meant_groups(task, table, question)
            known = next((self.studies[k] for k in self.studies if _model(k) == _model(key)), None)
            if known is not None:
                study = known.asking(groups=groups, declared=question.declared)
            else:
                study = Study(
                    table,
                    label=question.label,
                    protect=question.protected,
                    groups=groups,
                    model=_own_model(task, question) if question.model == "own" else question.model,
                    drop=question.drop,
                    weight=question.weight,
                    categorical=question.categorical,
                    bins=_bins(question),
                    missing=question.missing,
                    test=None if question.test is None else self._table(task, question, "test_"),
                    test_share=question.test_share,
                    seed=question.seed,
                    positive=self._positive(task, table, question),
                    declared=question.declared,
                    regularisation=question.regularisation,
                    identity=question.identity,
                )
            if question.identity is None:  # masking trains models of its own
                study.fitted()
            _keep(self.studies, key, study)
        return question, self.studies[key]

    @staticmethod
    def _positive(task: Task, table: TableFile, question: Question) -> str | None:
        """Return the answer that counts as yes; it came as the page shows it."""
        if question.positive is None:
            return None
        from epsilens._validate import require_column
        from epsilens.data import infer_schema

        require_column(question.label, list(table.frame.columns), argument="label")
        (column,) = infer_schema(table.frame[[question.label]]).columns
        names = [str(value) for value in column.categories or ()]
        known = dict(zip(_shown(names, task) or [], names, strict=True))
        if task["anonymous"] and question.positive not in known:
            raise InputError(
                argument="positive", expected=f"“category 1” to “category {len(names)}”"
            )
        return known.get(question.positive, question.positive)

    def _first_order(self, task: Task, progress: Progress) -> Answer:
        with _noted() as notes:
            question, study = self._study(task)
            result = study.cost(**_asked(question), method="influence")
        return {"document": _told(result.document, notes, task)}

    def _preview(self, task: Task, progress: Progress) -> Answer:
        """Answer at a few budgets at once; at all of them, as `_cost` does, where that is quick."""
        from epsilens.channels import parse_grid
        from epsilens.document.view import thinned

        with _noted() as notes:
            question, study = self._study(task)
            if question.identity is not None:
                return _before_masking(question, study)
            if not question.is_linear:
                return _trained_again(question, study)
            asked = _asked(question)
            is_quick = _is_quick(question, study.baseline)
            if is_quick:
                asked["seconds"] = EXACT_SECONDS
            else:
                asked["epsilon"] = thinned(parse_grid(question.epsilon), PREVIEW_BUDGETS)
                asked |= {"seconds": PREVIEW_SECONDS, "n_draws": PREVIEW_DRAWS}
            result = study.cost(**asked)
        # What failed its check is measured by the cost.
        is_trusted = all(cell.trusted for cell in result.document.cells)
        return {
            "document": _told(result.document, notes, task),
            "is_cost": is_quick and is_trusted,
        }

    def _cost(self, task: Task, progress: Progress) -> Answer:
        with _noted() as notes:
            question, study = self._study(task)
            result = study.cost(
                **_asked(question),
                seconds=EXACT_SECONDS,
                retraining_seconds=RETRAINING_SECONDS if study.is_linear else 0.0,
                checkpoint=None if study.is_linear else task["cost_checkpoint"],
                progress=_worded(progress, "{}"),
            )
        return {"document": _told(result.document, notes, task)}

    def _mask(self, task: Task, progress: Progress) -> Answer:
        """Find the columns that identify people and that the model can spare."""
        from epsilens.study import find_mask

        with _noted() as notes:
            question, study = self._study(task)
            _, found = find_mask(study, alpha=question.alpha, progress=_worded(progress, "{}"))
        return {"document": _told(found.document, [*study.prepared.notes, *notes], task)}

    def _attack(self, task: Task, progress: Progress) -> Answer:
        """Attack models at every budget, then try the mechanisms that are compared."""
        from epsilens.channels import parse_grid
        from epsilens.decision.others import Comparison
        from epsilens.decision.question import read_limits
        from epsilens.study import DEFAULT_GRID

        with _noted() as notes:
            question, study = self._study(task)
            curve = study.risk(
                epsilon=question.epsilon,
                shadow_models=question.shadow_models,
                seconds=None if study.is_linear else ATTACK_SECONDS,
                checkpoint=task["checkpoint"],
                progress=_worded(progress, "step 1 of 2, {}"),
            )
            limits = Limits.model_validate(task["limits"])
            previewed = study.preview_mechanisms(
                Comparison.read(
                    trust=question.trust, protects="answer", mechanisms=None, is_local=False
                ),
                read_limits(**limits.rules()),
                budgets=None if question.epsilon == DEFAULT_GRID else parse_grid(question.epsilon),
                progress=_worded(progress, "step 2 of 2, {}"),
            )
        shown = replace(previewed, notes=tuple(_as_shown(previewed.notes, task)))
        return {
            "document": _told(curve.document, notes, task),
            # The possible answers stand in the command that makes the release.
            "mechanisms": shown.to_dict()
            | {
                "answers": {
                    name: list(map(str, every)) for name, every in study.possible_answers.items()
                }
            },
        }


def _own_model(task: Task, question: Question) -> object:
    """Load the model that the server was started with; another one is not the study's."""
    from epsilens.audit.own_code import load_model

    started = task.get("own_model")
    if question.own_model is None or question.own_model != started:
        needed = question.own_model or "MODULE:NAME"
        raise InputError(f"this study needs a model of your own. Start with `--model {needed}`.")
    return load_model(question.own_model, folder=task["own_folder"])


def _trained_again(question: Question, study: Study) -> Answer:
    """Return what is known of a model that is trained again before anything is: that it can be."""
    if question.correction != "none" and not study.is_linear:
        raise InputError(
            f"{setting('correction', question.correction)} needs a linear model. Leave it out."
        )
    study.read_domains(warn=False)
    baseline = study.fitted().baseline_
    return {"document": None, "is_cost": False, "has_probabilities": baseline.is_classifier}


def _before_masking(question: Question, study: Study) -> Answer:
    """Refuse at once what masking would refuse after a while; nothing is known yet."""
    from epsilens._validate import require_extra
    from epsilens.study import check_people

    require_extra("explain", "finding the columns that identify people", "shap")
    if question.weight is not None or question.model == "ridge":
        name = "weight" if question.weight is not None else "model"
        given = getattr(question, name)
        raise InputError(f"masking takes no {setting(name, given)}. Choose another, or none.")
    check_people(study)
    return {"document": None, "is_cost": False}


def _asked(question: Question) -> dict[str, Any]:
    """Return a question as arguments of `Study.cost`."""
    return {
        "epsilon": question.epsilon,
        "correction": question.correction,
        "dependent_groups": "warn" if question.allow_dependent_groups else "refuse",
    }


def _is_quick(question: Question, baseline: Baseline) -> bool:
    """Say whether the cost takes about a second: one curve a group, of not too many rows."""
    n_groups = 1 + len(question.groups)
    return (
        question.protected == [question.label]
        and question.correction == "none"
        and baseline.n_parameters is not None
        and baseline.n_train * baseline.n_parameters * n_groups <= QUICK
    )


def _meant_groups(task: Task, table: TableFile, question: Question) -> list[tuple[str, Expression]]:
    """Return the groups; what the page shows of an answer stands for the answer."""
    from epsilens.data import infer_schema
    from epsilens.data.expressions import compared_as, parse_expression

    groups = []
    for group in question.groups:
        expression = parse_expression(group.expression)
        answers: dict[str, dict[str, str | float | bool]] = {}
        for name in expression.columns.intersection(table.frame.columns):
            categorical = [name] if name in question.categorical else []
            (column,) = infer_schema(table.frame[[name]], categorical=categorical).columns
            real = list(column.categories or ())
            shown = _shown([str(value) for value in real], task) or []
            answers[name] = {
                words: _constant(str(value), compared_as(table.frame[name]))
                for words, value in zip(shown, real, strict=True)
                if words != str(value)
            }
        groups.append((group.name, expression.with_answers(answers)))
    return groups


def _constant(text: str, kind: str) -> str | float | bool:
    """Return an answer as a condition compares it."""
    if kind == "number":
        return float(text)
    return text.lower() == "true" if kind == "truth" else text


def _shown(categories: list[str] | None, task: Task) -> list[str] | None:
    """Return the categories of a column as the page shows them: numbered, or cut where too long."""
    if categories is None:
        return None
    if task["anonymous"]:
        return [f"category {place + 1}" for place in range(len(categories))]
    return [
        name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}… (answer {place + 1})"
        for place, name in enumerate(categories)
    ]


def _model(key: str) -> list[object]:
    """Return what the model of a study depends on: all of its key that is not about groups and budgets."""
    seen, asked = json.loads(key)
    beside = {"groups", "epsilon", "declared", "trust", "alpha"}
    return [seen, {k: v for k, v in asked.items() if k not in beside}]


def _seen(task: Task) -> list[object]:
    """Return what tells the tables of a task from others, and from themselves after they were changed."""
    paths = [path for path in (task["path"], task.get("test_path")) if path is not None]
    return [*paths, look_at(paths), task["anonymous"]]


def _keep(kept: OrderedDict[str, Any], key: str, value: object) -> None:
    kept[key] = value
    while len(kept) > _KEPT:
        kept.popitem(last=False)


def _bins(reading: TableReading) -> dict[str, Bins]:
    from epsilens.data import parse_bins

    return dict(parse_bins(f"{name}={text}") for name, text in reading.bins.items())


@contextmanager
def _noted() -> Iterator[list[Note]]:
    """Collect our own warnings; others may quote data and are dropped."""
    notes: list[Note] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        for category in (PrivacyLeakWarning, ApproximationWarning):
            warnings.simplefilter("always", category=category)
        yield notes
    notes += [
        note_of_warning(warning.message)
        for warning in caught
        if isinstance(warning.message, PrivacyLeakWarning | ApproximationWarning)
    ]


def _told(document: _D, notes: list[Note], task: Task) -> Answer:
    """Return a document with what was noticed, as the page may show it."""
    from epsilens.document import to_dict

    told = _as_shown(distinct_notes([*document.notes, *notes]), task)
    found: Answer = to_dict(document.model_copy(update={"notes": told}))
    return found


def _as_shown(notes: Iterable[Note], task: Task) -> list[Note]:
    """Return notes in the words of the page; those that may name something only where names are shown."""
    said = [replace(note, text=note.render(PAGE)) for note in notes]
    if not task["anonymous"]:
        return said
    # Columns and groups are numbers already; notes could still name an answer.
    shown = [note for note in said if not note.has_names]
    return shown if len(shown) == len(said) else [Note("withheld", WITHHELD), *shown]


def _worded(progress: Progress, words: str) -> Progress:
    """Tell progress in words that the page shows."""

    def told(done: int, total: int, what: str) -> None:
        progress(done, total, words.format(STEPS.get(what, what)))

    return told
