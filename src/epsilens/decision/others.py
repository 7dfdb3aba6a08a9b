# SPDX-License-Identifier: Apache-2.0
"""Which mechanisms are compared with randomised response, and what their budgets cost."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, cast, get_args

import numpy as np

from epsilens._types import Progress
from epsilens._validate import as_choice, require_extra
from epsilens.decision.compare import Compared
from epsilens.decision.question import CheckedLimits
from epsilens.decision.rules import decide
from epsilens.document import (
    MechanismCell,
    MechanismCurve,
    WhatIfDocument,
    load_document,
    to_dict,
)
from epsilens.document.decision import BETWEEN, RANDOMISED, TITLES, MechanismName, Protects, Trust
from epsilens.errors import InputError, MissingExtraError, setting
from epsilens.mechanisms import MECHANISMS, Preview, mechanism_class
from epsilens.mechanisms.audits import stored_audit
from epsilens.notes import Note
from epsilens.whatif import LossChangeEstimate

if TYPE_CHECKING:
    from epsilens.decision.result import Decision
    from epsilens.document import RiskDocument
    from epsilens.mechanisms import Mechanism, Task
    from epsilens.risk import RiskCurve

BUDGETS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Budgets of mechanisms that train on the true answers, beside the one that meets the attack limit."""
_DIGITS = 3
_SECONDS_BETWEEN = 2.0
"""Expected time of a mechanism that is tried at `BETWEEN` too."""


@dataclass(frozen=True)
class Comparison:
    """Who is trusted, what is claimed, and which mechanisms are compared.

    Attributes
    ----------
    trust : {"nobody", "curator"}
    protects : {"answer", "record"}
    names : tuple of str
        Mechanisms beside randomised response.
    named : tuple of str or None
        Mechanisms that were named; slow ones among them are compared. None: none was.
    with_correction : bool
        Whether randomised response with forward correction is compared too.
    """

    trust: Trust
    protects: Protects
    names: tuple[MechanismName, ...]
    named: tuple[str, ...] | None
    with_correction: bool

    @classmethod
    def read(
        cls,
        *,
        trust: str | None,
        protects: str,
        mechanisms: str | Sequence[str] | None,
        is_local: bool,
    ) -> Self:
        """Check who is trusted and what is compared.

        Parameters
        ----------
        trust : {"nobody", "curator"}, optional
        protects : {"answer", "record"}
        mechanisms : str or sequence of str, optional
        is_local : bool
            Whether the question is about randomised response alone.

        Examples
        --------
        >>> Comparison.read(trust=None, protects="answer", mechanisms="randomised-response",
        ...                 is_local=False).trust
        'nobody'
        """
        as_choice(protects, get_args(Protects), name="protects")
        if trust is not None:
            as_choice(trust, get_args(Trust), name="trust")
        given = [mechanisms] if isinstance(mechanisms, str) else mechanisms
        names = None if given is None else [part for text in given for part in text.split(",")]
        for name in names or ():
            as_choice(name, get_args(MechanismName), name="mechanism")
        if names is not None and not RANDOMISED.isdisjoint(names) and RANDOMISED.issuperset(names):
            is_local = True
        resolved = trust or ("nobody" if is_local else "curator")
        others = [name for name in (names or MECHANISMS) if name not in RANDOMISED]
        if resolved == "nobody":
            if names is not None and others:
                if trust is None:
                    raise InputError(
                        f"{setting('mechanism')} {others[0]} trains on the true answers, but other options ask "
                        "about randomised response alone. Leave out one or the other."
                    )
                raise InputError(
                    f"{setting('mechanism')} {others[0]} needs somebody who is trusted with the true answers, "
                    f"got {setting('trust', 'nobody')}. Use {setting('trust', 'curator')}, or leave it out."
                )
            if protects == "record":
                raise InputError(
                    f"{setting('protects', 'record')} needs somebody who is trusted with the true answers: "
                    "randomised response protects answers alone. Leave out what asks for it."
                )
            others = []
        for name in others if names is not None else ():
            kind = mechanism_class(name)
            if kind.packages:
                require_extra(str(kind.extra), TITLES[kind.name], *kind.packages)
        return cls(
            trust="nobody" if resolved == "nobody" else "curator",
            protects="record" if protects == "record" else "answer",
            names=tuple(name for name in MECHANISMS if name in others),
            named=None if names is None else tuple(names),
            with_correction=names is None or "randomised-response-corrected" in names,
        )


@dataclass(frozen=True)
class Previewed:
    """What is compared with randomised response, before any limit decides.

    Attributes
    ----------
    comparison : Comparison
    compared : tuple of Compared
        Mechanisms that train on the true answers.
    corrected : LossChangeEstimate or None
        Cost of randomised response with forward correction.
    notes : tuple of Note
        Mechanisms that are not compared, and why.
    settings : mapping of str to float
        Settings of the previews: the bound of rows and delta.
    """

    comparison: Comparison
    compared: tuple[Compared, ...] = ()
    corrected: LossChangeEstimate | None = None
    notes: tuple[Note, ...] = ()
    settings: Mapping[str, float] = field(default_factory=dict)

    def decide(
        self,
        cost: LossChangeEstimate | WhatIfDocument,
        risk: RiskCurve | RiskDocument,
        *,
        progress: Progress | None = None,
        **limits: Any,
    ) -> Decision:
        """Pick the mechanism and the ε that the limits lead to.

        Parameters
        ----------
        cost, risk, progress
            As of `epsilens.decision.decide`.
        **limits
            Limits as of `epsilens.decision.decide`.
        """
        found = decide(
            cost,
            risk,
            **limits,
            corrected=self.corrected,
            trust=self.comparison.trust,
            protects=self.comparison.protects,
            others=self.compared,
            named=self.comparison.named,
            progress=progress,
        )
        document = found.document
        origin = document.provenance
        told = {
            "notes": [*document.notes, *self.notes],
            "provenance": origin.model_copy(
                update={"settings": {**origin.settings, **self.settings}}
            ),
        }
        return replace(found, document=document.model_copy(update=told))

    def to_dict(self) -> dict[str, object]:
        """Return plain objects that JSON knows."""
        return {
            "comparison": asdict(self.comparison),
            "compared": [
                {
                    "curve": one.curve.model_dump(mode="json"),
                    "is_exact": one.is_exact,
                    "previews": [
                        {
                            "cell": preview.cell.model_dump(mode="json"),
                            "changes": {
                                name: list(map(float, runs))
                                for name, runs in preview.changes.items()
                            },
                        }
                        for preview in one.previews
                    ],
                }
                for one in self.compared
            ],
            "corrected": None if self.corrected is None else to_dict(self.corrected.document),
            "notes": [asdict(note) for note in self.notes],
            "settings": dict(self.settings),
        }

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """Return what `to_dict` was made of. Nothing can be trained again from it."""
        asked, corrected = kept["comparison"], kept["corrected"]
        names = {name: asked[name] and tuple(asked[name]) for name in ("names", "named")}
        return cls(
            comparison=Comparison(**{**asked, **names}),
            compared=tuple(
                Compared(
                    MechanismCurve.model_validate(one["curve"]),
                    tuple(
                        Preview(
                            MechanismCell.model_validate(preview["cell"]),
                            {name: np.asarray(runs) for name, runs in preview["changes"].items()},
                        )
                        for preview in one["previews"]
                    ),
                    is_exact=one["is_exact"],
                )
                for one in kept["compared"]
            ),
            corrected=None
            if corrected is None
            else LossChangeEstimate(cast(WhatIfDocument, load_document(corrected))),
            notes=tuple(Note(**note) for note in kept["notes"]),
            settings=kept["settings"],
        )


def preview_others(
    task: Task,
    comparison: Comparison,
    limits: CheckedLimits,
    *,
    baseline_high: float,
    budgets: Sequence[float] | None,
    delta: float,
    seconds: float,
    seed: int,
    progress: Progress | None = None,
) -> tuple[list[Compared], list[Note]]:
    """Preview the mechanisms that are compared with randomised response.

    Parameters
    ----------
    task : Task
    comparison : Comparison
    limits : CheckedLimits
    baseline_high : float in [0, 1]
        Upper confidence bound of what everybody else's data give away.
    budgets : sequence of float, optional
        The budgets that were asked for. None: `BUDGETS`, the one that meets the limit on the attack, and `BETWEEN`
        where that is fast.
    delta : float in (0, 1)
    seconds : float
        Time for slow mechanisms that were not named.
    seed : int
    progress : callable, optional

    Returns
    -------
    compared : list of Compared
    notes : list of Note
        Mechanisms that are not compared, and why.
    """
    found: list[Compared] = []
    slow, notes = [], []
    deadline = time.monotonic() + seconds
    for place, name in enumerate(comparison.names):
        kind = mechanism_class(name)
        audit, refusal = stored_audit(name), kind.refusal(task)
        if refusal is not None:
            if comparison.named is not None or (audit is not None and audit.is_broken):
                notes.append(Note("mechanism-refused", f"{name} is not offered. {refusal}"))
            continue
        if kind.is_slow and comparison.named is None:
            left = deadline - time.monotonic()
            if kind.expected_seconds(task, len(budgets or BUDGETS)) > left:
                slow.append(name)
                continue
        if comparison.protects not in kind.claims:
            continue
        grid = (
            sorted(one for one in budgets if 0.0 < one < math.inf)
            if budgets is not None
            else _budgets(kind, task, limits, comparison.protects, baseline_high, delta)
        )
        plans = [
            kind.plan(task, epsilon=epsilon, delta=delta, protects=comparison.protects)
            for epsilon in grid
        ]
        if not plans:
            continue
        between = [
            kind.plan(task, epsilon=epsilon, delta=delta, protects=comparison.protects)
            for epsilon in (_between(kind, task) if budgets is None else ())
            if epsilon not in grid
        ]
        try:
            # With draws of their own: further budgets change nothing at the others.
            previews = [
                preview
                for part, own in ((plans, [seed, place]), (between, [seed, place, 1]))
                if part
                for preview in kind.preview(
                    task, part, generator=np.random.default_rng(own), progress=progress
                )
            ]
        except MissingExtraError:
            if comparison.named is not None:
                raise
            slow.append(name)
            continue
        curve = MechanismCurve(
            mechanism=name, trust=kind.trust, protects=plans[0].protects, cells=[], audit=audit
        )
        previews.sort(key=lambda one: one.cell.epsilon or 0.0)
        found.append(Compared(curve, tuple(previews), is_exact=not task.undeclared))
    if task.undeclared and found:
        listed = ", ".join(map(repr, task.undeclared[:8]))
        more = len(task.undeclared) - 8
        notes.append(
            Note(
                "columns-not-declared",
                f"to protect whole records declare what every column can hold, from what is known without the "
                f"data, or leave it out. Not declared: {listed}{f' and {more} more' if more > 0 else ''}. Use "
                f"{setting('ranges')}, {setting('categories')} or {setting('drop')}.",
            )
        )
    if slow:
        notes.append(
            Note(
                "slow-mechanisms",
                f"slow mechanisms were not compared and may cost less: {', '.join(slow)}. Name "
                f"{'it' if len(slow) == 1 else 'them'} in {setting('mechanism')}, or allow more {setting('seconds')}.",
            )
        )
    return found, notes


def _between(kind: type[Mechanism], task: Task) -> tuple[float, ...]:
    """Return the budgets between the usual ones, for a mechanism that is fast enough."""
    is_fast = not kind.is_slow and kind.expected_seconds(task, len(BETWEEN)) <= _SECONDS_BETWEEN
    return BETWEEN if is_fast else ()


def _budgets(
    kind: type[Mechanism],
    task: Task,
    limits: CheckedLimits,
    protects: Protects,
    baseline_high: float,
    delta: float,
) -> list[float]:
    """Return the budgets of a mechanism, among them the largest that meets the limit on the attack."""
    most = limits.advantage
    if limits.rate is not None and baseline_high < 1.0:
        most = (limits.rate - baseline_high) / (1.0 - baseline_high)
    if kind.is_slow or most is None or not 0.0 < most < 1.0:
        return list(BUDGETS)

    def advantage(epsilon: float) -> float:
        return kind.plan(task, epsilon=epsilon, delta=delta, protects=protects).advantage

    low, high = math.log(1e-3), math.log(20.0)
    if advantage(math.exp(low)) > most:
        return list(BUDGETS)
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if advantage(math.exp(middle)) <= most else (low, middle)
    at = math.exp(low)
    unit = 10.0 ** (math.floor(math.log10(at)) - _DIGITS + 1)
    rounded = float(f"{math.floor(at / unit) * unit:.{_DIGITS}g}")
    return sorted({*BUDGETS, rounded})
