# SPDX-License-Identifier: Apache-2.0
"""Writing the answer: cells and intervals become the one document."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from epsilens._types import Progress
from epsilens.document import OutcomeInterval, Provenance, WhatIfCell, WhatIfDocument
from epsilens.document.whatif import BODY, UNDECLARED, cell_key, whatif_number_types
from epsilens.document.wording import epsilon_text, own_budget, whole_group
from epsilens.errors import (
    EstimateNotTrustworthyError,
    InputError,
    PrivacyLeakWarning,
    phrase,
    setting,
)
from epsilens.influence import FirstOrder
from epsilens.influence.any_model import AnyModel
from epsilens.influence.evaluation import Outcomes
from epsilens.influence.groups import Group
from epsilens.influence.question import Asked
from epsilens.models.passes import place_of_work
from epsilens.notes import Note
from epsilens.whatif.cells import OUTCOMES, CellAnswer
from epsilens.whatif.curve import (
    CurvePoints,
    baseline_outcomes,
    curve_answers,
    curve_notes,
    node_runs,
)
from epsilens.whatif.methods import AnyBaseline
from epsilens.whatif.result import INTERVAL_CONFIDENCE, LossChangeEstimate, epsilon_column
from epsilens.whatif.retraining import RUN_OUTCOMES, Run, runs_outcomes

if TYPE_CHECKING:
    import pandas as pd


_DRAWS_COLUMNS = ("group", "epsilon", "repeat", "loss_change", "accuracy_change", "auc_change")


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Origin:
    """What an answer says about where it comes from.

    Attributes
    ----------
    baseline : Baseline
    estimator : str
        The class of the user's estimator.
    fingerprint : str
        Fingerprint of the schema.
    template : object
        The user's table, for the library of the frames.
    declared : mapping
        What the user has declared of a network.
    """

    baseline: AnyBaseline | AnyModel
    estimator: str
    fingerprint: str
    template: object
    declared: Mapping[str, str]


ABOUT_CHECKS = frozenset({"cost-measured", "estimates-unchecked"})
"""Codes of the notes on cells whose estimate failed its check."""


def untrusted_notes(cells: list[WhatIfCell], *, repeats: int | None = None) -> list[Note]:
    """Say which estimates failed their check, and which of these were measured by so many runs instead."""
    notes: list[Note] = []
    measured = [cell for cell in cells if cell.method == "retrain"]
    if repeats is not None and measured:
        at = ", ".join(epsilon_text(own_budget(cell)) for cell in measured)
        notes.append(
            Note(
                "cost-measured",
                f"the estimate failed its own check at ε = {at}: the cost there is measured, by training "
                f"again {repeats} times.",
            )
        )
    failed = [cell for cell in cells if not cell.trusted]
    if failed:
        # Who has the best estimate already must not be sent to it.
        is_best = all(cell.method == "exact" for cell in failed)
        # A decision estimates as well, but has no such option.
        exact, again = (
            phrase(setting("method", how), command=f"`epsilens whatif --method {how}`")
            for how in ("exact", "retrain")
        )
        advice = f"{'Train' if is_best else f'Take {exact}, or train'} again to be sure: {again}."
        page = "Train again to be sure, in the terminal (method retrain)."
        why = (
            "drawn runs that were solved for real lie elsewhere, or what the method leaves out is too large beside "
            f"its interval. {phrase(advice, page=page)}"
        )
        if all(cell.method == "curve" for cell in failed):
            why = "the curve may bend between the ε at which models were trained. " + phrase(
                f"Give it more {setting('seconds')}.", page="Train again in the terminal."
            )
        notes.append(
            Note(
                "estimates-unchecked",
                f"{len(failed)} of {len(cells)} estimates failed their own check: {why}",
            )
        )
    return notes


def write_estimate(
    origin: Origin,
    asked: Asked,
    answers: list[CellAnswer],
    *,
    method: str,
    seed: int,
    corrected: bool,
    seconds: float,
    first_order: FirstOrder | None = None,
) -> LossChangeEstimate:
    """Return the result of a method."""
    correction = "forward" if corrected else "none"
    n_draws = max(len(answer.loss_runs) for answer in answers)  # wide models draw fewer than asked
    settings: dict[str, object] = {"n_draws": n_draws, "correction": correction}
    drawn = [answer.standard_error for answer in answers if answer.standard_error is not None]
    if drawn:
        settings["inverse_hessian"] = {"solver": "cg", "loss_change_standard_error": max(drawn)}
        asked.notes.append(
            Note(
                "drawn-runs",
                f"the part of second order is a mean over {n_draws} drawn runs: in the worst cell the change "
                f"of loss has a Monte-Carlo standard error of {max(drawn):.1g}.",
            )
        )
    if first_order is not None:
        settings["inverse_hessian"] = _solver_settings(first_order, answers)
        asked.notes.extend(_solver_notes(first_order, answers))
    return _written(origin, asked, answers, method, seed, seconds, settings)


def _written(
    origin: Origin,
    asked: Asked,
    answers: list[CellAnswer],
    method: str,
    seed: int,
    seconds: float,
    settings: dict[str, object],
    retrained: pd.DataFrame | None = None,
) -> LossChangeEstimate:
    """Return cells, intervals, provenance, and what must be known about the numbers."""
    cells, intervals = [], []
    for answer in answers:
        group, at = asked.groups[answer.group_index].name, asked.epsilons[answer.epsilon_index]
        shown = None if asked.is_mapping else at
        own = None
        if asked.mixed:
            own = {part.group.name: part.epsilon for part in asked.mixed[answer.epsilon_index]}
            shown = at if len(set(own.values())) == 1 else None
        cells.append(
            WhatIfCell(
                group=group,
                epsilon=shown,
                record_epsilon=asked.record_epsilons[answer.epsilon_index],
                method=method,  # type: ignore[arg-type]
                loss_change=answer.loss_change,
                loss_change_low=None if math.isnan(answer.loss_low) else answer.loss_low,
                loss_change_high=None if math.isnan(answer.loss_high) else answer.loss_high,
                trusted=answer.trusted,
                number_type=answer.number_type,
                group_epsilons=own,
                **{f"{name}_change": value for name, value in answer.changes.items()},
            )
        )
        intervals += [
            OutcomeInterval(
                group=group,
                epsilon=shown,
                group_epsilons=own,
                outcome=name,  # type: ignore[arg-type]
                low=low,
                high=high,
            )
            for name, (low, high) in answer.intervals.items()
        ]
    notes = [*origin.baseline.notes, *asked.notes]
    lost = sum(cell.loss_change is None for cell in cells)
    if lost:
        notes.append(
            Note(
                "cells-without-answer",
                f"{lost} of {len(cells)} cells have no answer: the objective has no minimum with a "
                "positive definite Hessian near the model (a corrected loss need not be convex).",
            )
        )
    document = WhatIfDocument(
        provenance=Provenance(
            method=method,
            settings={
                "protect": list(asked.names),
                "n_answers": list(asked.n_answers),
                "mechanism": asked.mechanism,
                "epsilon": asked.epsilon_setting(),
                "groups": [group.name for group in asked.named_groups],
                **({"together": True} if asked.mixed else {}),
                "estimator": origin.estimator,
                "loss": origin.baseline.loss_name,
                **origin.declared,
                **settings,
                **place_of_work(),
            },
            seed=seed,
            simulated=True,
            schema_fingerprint=origin.fingerprint,
            seconds=seconds,
        ),
        notes=notes + untrusted_notes(cells),
        number_types=whatif_number_types(
            retrained=method == "retrain",
            is_about_privacy=origin.declared.get(BODY) != UNDECLARED,
        ),
        baseline=origin.baseline.numbers(),
        cells=cells,
        intervals=intervals,
    )
    return LossChangeEstimate(
        document=document,
        loss_draws=tuple(answer.loss_runs for answer in answers),
        template=origin.template,
        retrained=retrained,
    )


def _solver_settings(first_order: FirstOrder, answers: list[CellAnswer]) -> dict[str, object]:
    """Return the solver of the inverse Hessian, and what it left in the worst cell."""
    solution = first_order.solution
    settings = {
        **first_order.inverse.settings(),
        "relative_residual": solution.relative_residual,
        "n_passes": solution.n_passes,
        "converged": solution.converged,
    }
    errors = [answer.solve_error for answer in answers if answer.solve_error is not None]
    if errors:
        settings["loss_change_error"] = max(error.size for error in errors)
    drawn = [e.standard_error for e in errors if e.standard_error is not None]
    if drawn:
        settings["loss_change_standard_error"] = max(drawn)
    return settings


def _solver_notes(first_order: FirstOrder, answers: list[CellAnswer]) -> list[Note]:
    """Return what must be said of a solver that did not converge, or that drew."""
    notes = [first_order.solution.note] if first_order.solution.note else []
    errors = [answer.solve_error for answer in answers if answer.solve_error is not None]
    lost = sum(not error.converged for error in errors) if first_order.solution.converged else 0
    if lost:
        notes.append(
            Note(
                "solver-not-converged",
                f"the solver of the inverse Hessian did not reach its tolerance beside {lost} of "
                f"{len(answers)} cells: their accuracy, AUC, gaps and trust are uncertain.",
            )
        )
    drawn = [e for e in errors if e.standard_error is not None]
    if drawn:
        size, se = max(e.size for e in drawn), max(e.standard_error or 0.0 for e in drawn)
        notes.append(
            Note(
                "stochastic-hessian",
                "the inverse Hessian is estimated from mini-batches: in the worst cell the change of loss has "
                f"a Monte-Carlo standard error of {se:.1g}, without the bias of stopping early, and an error, "
                f"estimated from the residual, of {size:.1g}.",
            )
        )
    return notes


def _mean(outcome: Sequence[float | None]) -> float | None:
    """Return the mean of an outcome over runs; None where a run has none."""
    known = [one for one in outcome if one is not None]
    return float(np.mean(known)) if len(known) == len(outcome) else None


def _as_outcomes(before: Sequence[float | None]) -> Outcomes:
    """Return loss, accuracy and AUC before anything is randomised."""
    assert before[0] is not None  # noqa: S101
    return Outcomes(before[0], *before[1:3])


def _outcomes_before(baseline: AnyBaseline | AnyModel, group: Group) -> Run:
    """Return the outcomes of the model of the true answers, with the gaps of a group."""
    if isinstance(baseline, AnyModel):
        found = baseline.outcomes_for(group.test_mask)
        return tuple(getattr(found, name) for name in RUN_OUTCOMES)
    (before,) = runs_outcomes(baseline, group, baseline.theta[:, None])
    return before


def write_curve(
    origin: Origin,
    asked: Asked,
    points: CurvePoints,
    *,
    n_draws: int,
    seed: int,
    seconds: float,
    max_error: float | None,
) -> LossChangeEstimate:
    """Return the curve of a model that was trained again at a few ε."""
    import pandas as pd

    before = baseline_outcomes(points)
    outcomes = _as_outcomes([None if math.isnan(one) else one for one in before[0].tolist()])
    answers = curve_answers(points, asked, before)
    asked.notes.extend(curve_notes(points, n_draws, len(answers)))
    settings: dict[str, object] = {
        "repeats": n_draws,
        "n_fits": points.n_fits,
        "correction": "none",
        **({} if max_error is None else {"max_error": max_error}),
    }
    retrained = pd.DataFrame(node_runs(points, asked, before), columns=list(_DRAWS_COLUMNS))
    assert isinstance(origin.baseline, AnyModel)  # noqa: S101
    origin = replace(origin, baseline=replace(origin.baseline, outcomes=outcomes))
    return _written(origin, asked, answers, "curve", seed, seconds, settings, retrained)


def write_retraining(
    origin: Origin,
    asked: Asked,
    runs: dict[tuple[str, int, int], Run],
    *,
    repeats: int,
    seed: int,
    corrected: bool,
    seconds: float,
) -> LossChangeEstimate:
    """Return the mean and the 5–95 % quantiles over retrained runs."""
    import pandas as pd

    answers, rows = [], []
    model = origin.baseline
    for g, group in enumerate(asked.groups):
        before = _outcomes_before(model, group)
        clean = [runs[one] for r in range(repeats) if (one := (group.name, -1, r)) in runs]
        if clean and isinstance(model, AnyModel):
            # The model has random numbers of its own: one of the true answers is one of many.
            before = tuple(_mean(outcome) for outcome in zip(*clean, strict=True))
            origin = replace(origin, baseline=replace(model, outcomes=_as_outcomes(before)))
        for e, at in enumerate(asked.epsilons):
            after = [runs[(group.name, e, repeat)] for repeat in range(repeats)]
            own = [part.epsilon for part in asked.mixed[e]] if asked.mixed else []
            loss, *others = (
                np.array([np.nan if a is None or b is None else a - b for a in outcome])
                for b, outcome in zip(before, zip(*after, strict=True), strict=True)
            )
            rows += [
                (group.name, at, r, *one, *own)
                for r, one in enumerate(zip(loss, *others[:2], strict=True))
            ]
            low, high = np.quantile(loss, [0.05, 0.95]).tolist()
            known = {
                name: values
                for name, values in zip(OUTCOMES, others, strict=True)
                if not np.isnan(values).any()
            }
            answers.append(
                CellAnswer(
                    group_index=g,
                    epsilon_index=e,
                    loss_change=float(loss.mean()),
                    loss_low=low,
                    loss_high=high,
                    changes={
                        name: float(known[name].mean()) if name in known else None
                        for name in OUTCOMES
                    },
                    intervals={
                        name: tuple(np.quantile(values, [0.05, 0.95]).tolist())
                        for name, values in known.items()
                    },
                    trusted=True,
                    loss_runs=loss,
                )
            )
    settings: dict[str, object] = {
        "repeats": repeats,
        "correction": "forward" if corrected else "none",
    }
    columns = [epsilon_column(part.name) for part in asked.named_groups] if asked.mixed else []
    retrained = pd.DataFrame(rows, columns=[*_DRAWS_COLUMNS, *columns])
    return _written(origin, asked, answers, "retrain", seed, seconds, settings, retrained)


# --- Costs whose estimate failed its check, measured by training again ---

FEWEST_REPEATS = 20
"""Runs a cell: with 19 the largest is the upper end of a 5–95 % interval."""


class _OutOfTimeError(Exception):
    """The time for training again is over."""


def measure_cell(
    estimate: LossChangeEstimate,
    at: float,
    *,
    deadline: float,
    confidence: float = INTERVAL_CONFIDENCE,
    progress: Progress | None = None,
) -> LossChangeEstimate | None:
    """Train everybody's models again at one ε and put what they show in place of the estimate.

    Parameters
    ----------
    estimate : LossChangeEstimate
        Result of `WhatIf.estimate`, which knows how to train again.
    at : float
        The ε of the cell.
    deadline : float
        Time of `time.monotonic` at which nothing is begun any more.
    confidence : float in (0, 1)
        Confidence level that the number of runs must allow.
    progress : callable, optional
        Called with (done, total, what).

    Returns
    -------
    LossChangeEstimate or None
        None where there is no study or no time left, or where no model can be trained.
    """
    if estimate.again is None or time.monotonic() >= deadline:
        return None

    def told(done: int, total: int, what: str) -> None:
        if progress is not None:
            progress(done, total, what)
        if done < total and time.monotonic() >= deadline:
            raise _OutOfTimeError

    old = estimate.document
    settings, group = old.provenance.settings, whole_group(old)
    is_it = [one.group == group and own_budget(one) == at for one in old.cells]
    if sum(is_it) != 1:
        return None
    asked, own = settings.get("epsilon"), old.cells[is_it.index(True)].group_epsilons
    wanted: object = own
    if own is None:
        wanted = asked if isinstance(asked, dict) else [at]
    repeats = max(FEWEST_REPEATS, math.ceil(2.0 / (1.0 - confidence) - 1e-9))
    started = time.monotonic()
    try:
        with warnings.catch_warnings():
            # The estimate has said it of the same columns.
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            estimate.again(epsilon=wanted, repeats=1)
            # Runs side by side take less than one after the other.
            if time.monotonic() + (time.monotonic() - started) * repeats / 2 > deadline:
                return None
            found = estimate.again(epsilon=wanted, repeats=repeats, progress=told)
    except (_OutOfTimeError, EstimateNotTrustworthyError, InputError):
        return None
    (cell,) = found.document.cells
    cells = [cell if it else one for it, one in zip(is_it, old.cells, strict=True)]
    kept = [item for item in old.intervals if cell_key(item) != cell_key(cell)]
    origin = old.provenance.model_copy(update={"settings": {**settings, "repeats": repeats}})
    document = old.model_copy(
        update={
            "cells": cells,
            "intervals": [*kept, *found.document.intervals],
            "notes": [
                *(note for note in old.notes if note.code not in ABOUT_CHECKS),
                *untrusted_notes(cells, repeats=repeats),
            ],
            "provenance": origin,
        }
    )
    draws = tuple(
        found.loss_draws[0] if it else runs
        for it, runs in zip(is_it, estimate.loss_draws, strict=True)
    )
    return replace(estimate, document=document, loss_draws=draws)


def measure_untrusted(
    estimate: LossChangeEstimate, *, seconds: float, progress: Progress | None = None
) -> LossChangeEstimate:
    """Measure every cost of everybody that failed its check, from the largest ε down, while time lasts."""
    deadline = time.monotonic() + seconds
    group = whole_group(estimate.document)
    for cell in reversed(estimate.document.cells):
        if cell.group != group or cell.trusted:
            continue
        found = measure_cell(estimate, own_budget(cell), deadline=deadline, progress=progress)
        if found is None:
            break
        estimate = found
    return estimate
