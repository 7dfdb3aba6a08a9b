# SPDX-License-Identifier: Apache-2.0
"""`AttackStudy`: what an attacker would get from the model at each ε."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens._validate import as_count, as_positive, as_share
from epsilens.channels import ProductChannel, RandomizedResponse
from epsilens.document import Provenance, RiskCell, RiskDocument
from epsilens.document.risk import GroupRiskCell, risk_number_types
from epsilens.document.wording import EVERYBODY
from epsilens.errors import InputError, setting
from epsilens.influence.any_model import AnyModel
from epsilens.influence.baseline import BaselineModel
from epsilens.influence.fitted import FittedModel
from epsilens.influence.question import (
    Asked,
    Epsilon,
    GroupChannels,
    Question,
    as_correction,
    read_grid,
)
from epsilens.influence.streamed_baseline import StreamedBaseline
from epsilens.mechanisms import answer_ceiling, randomised_response_tpr
from epsilens.mechanisms.ceilings import CEILING_RATES, sampled_tpr
from epsilens.models.dp_sgd import DPSGDSettings
from epsilens.models.passes import place_of_work
from epsilens.models.privacy_accounting import attack_ceiling, sampled_advantage
from epsilens.models.scikit_learn import final_step
from epsilens.models.tables import column_names
from epsilens.notes import Note
from epsilens.risk.answer_inference import (
    CONFIDENCE,
    GuessFromOthers,
    KnownColumns,
    best_guess,
    cross_fitted,
    shares_of,
)
from epsilens.risk.any_shadows import (
    SECONDS,
    AnyShadows,
    ShadowPlan,
    attacked_note,
    plan_shadows,
    seconds_per_shadow,
    settled_plan,
    shadow_store,
)
from epsilens.risk.compared import comparison_numbers
from epsilens.risk.group_exposure import group_exposures
from epsilens.risk.holder import Holder
from epsilens.risk.likelihood_ratio import lira
from epsilens.risk.membership_attack import MembershipAttack
from epsilens.risk.power import USUAL_MODELS, planned_models, power_note, power_text
from epsilens.risk.randomised_shadows import (
    RandomisedShadows,
    model_generator,
    noisy_outcomes,
    require_probabilities,
)
from epsilens.risk.result import RiskCurve

FEWEST_PEOPLE = 30
"""People in a group at least: every random half has some of them."""
MOST_TARGETS = 20_000
"""Membership is attacked for so many records at most; more say nothing new and cost memory."""


class AttackStudy(FittedModel):
    """See what an attacker gets from a model whose training data were protected at ε.

    Give the study a model, the data it is trained on and a test set, as for `WhatIf`; then ask for a
    grid of privacy budgets. Hundreds of models are trained on random halves of the records, and
    attacked: how often is a person's own answer guessed, how often is it seen that a person was in
    the data; what would chance reach, and what can nobody exceed.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Any classifier with `predict_proba`, or a Pipeline that ends in one; fitted or not. It is never changed.
        LogisticRegression and SGDClassifier(loss="log_loss") are trained side by side, with the transformers
        of a pipeline frozen. All others are trained one by one, as a whole.

    Notes
    -----
    The results are functions of the raw data and not private themselves: publishing them, or tuning
    ε on them, leaks.

    References
    ----------
    P5: Y. Gu, K. Chen, "Calibrating Practical Privacy Risks for Differentially Private Machine
    Learning". N. Carlini et al., "Membership Inference Attacks From First Principles" (2022).

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.normal(size=600), "income": rng.normal(size=600)})
    >>> smokes = pd.Series(rng.random(600) < 1 / (1 + np.exp(-X["age"])), name="smokes")
    >>> smokes = smokes.astype("category")
    >>> study = AttackStudy(LogisticRegression()).fit(X[:400], smokes[:400], X[400:], smokes[400:])
    >>> curve = study.estimate(protect="smokes", epsilon=[0.5, 4.0], shadow_models=64)
    >>> frame = curve.to_frame()
    >>> bool((frame["answer_inference_rate"] < frame["answer_inference_ceiling"]).all())
    True
    """

    def __init__(self, estimator: BaseEstimator) -> None:
        self.estimator = estimator

    def fit(
        self,
        X: object,
        y: object,
        X_test: object,
        y_test: object,
        sample_weight: object | None = None,
        *,
        sample_weight_test: object | None = None,
    ) -> Self:
        """Train the model to convergence and evaluate it; see `WhatIf.fit`."""
        self._fit_tables(
            X, y, X_test, y_test, sample_weight=sample_weight, sample_weight_test=sample_weight_test
        )
        require_probabilities(self._baseline)
        return self

    def share_fit(self, other: FittedModel) -> Self:
        """Take over the model that another study has fitted; it must give probabilities."""
        super().share_fit(other)
        require_probabilities(self._baseline)
        return self

    @property
    def _baseline(self) -> BaselineModel | AnyModel:
        """The fitted model, with its records in memory."""
        check_is_fitted(self, "baseline_")
        assert not isinstance(self.baseline_, StreamedBaseline)  # noqa: S101
        return self.baseline_

    def estimate(
        self,
        *,
        protect: str | Iterable[str] | None = None,
        epsilon: Epsilon,
        shadow_models: int | None = None,
        detect: float | None = None,
        seconds: float | None = None,
        categories: Mapping[str, Sequence[object]] | None = None,
        correction: str | None = None,
        groups: Mapping[str, BoolArray] | None = None,
        together: bool = False,
        online: bool = False,
        confidence: float = 0.95,
        random_state: int = 0,
        checkpoint: str | Path | None = None,
        progress: Progress | None = None,
        announce: Callable[[str], None] | None = None,
    ) -> RiskCurve:
        """Attack models whose training answers were randomised.

        Parameters
        ----------
        protect : str or list of str, optional
            What is randomised: features, and the label by its name. None: the label.
        epsilon : float in (0, inf], list, grid text such as "0.1:10:10", or {column: epsilon}
            Privacy budgets per column; infinity randomises nothing.
        shadow_models : int ≥ 20, optional
            Models trained for every ε. More give finer intervals and a lower noise floor. Of a model that is
            not linear as many as `seconds` allows, and at fewer ε. None: 256, or as many as `detect` needs.
        detect : float in (0, 0.25), optional
            Chooses the number of models by the effect that is to be found with probability 80 %: 0.02 for a
            mean success rate of 52 % over the records. Up to 0.5 with `online`. See
            `epsilens.risk.models_needed`.
        seconds : float, optional
            Time for the trainings of a model that is not linear; at least 20 models are trained at the
            largest ε. None: 60. Infinity trains all models at every ε.
        categories : mapping of column to values, optional
            The public domain of the protected columns; see `WhatIf.estimate`.
        correction : {None, "none", "forward"}
            Whether the models are trained on a loss that knows the noise of the label; see
            `WhatIf.estimate`. What is proven stays the same: a correction is computed from the randomised
            answers alone.
        groups : mapping of name to array of bool, shape (n,), optional
            Groups of people of whom the guesses and the membership attack are counted too. Everybody is
            randomised. Whoever knows the other columns must know who is in a group.
        together : bool
            Whether every group is randomised at its own ε, as in `WhatIf.estimate`: `epsilon` is then
            {group: epsilon}, and everybody must be in one group. A cell's budgets, advantage and ceiling are
            those of the least protected group; the cells of the groups have their own.
        online : bool
            Whether the membership attack also learns what members look like.
        confidence : float in (0, 1)
            Confidence level of the bounds on the membership attack.
        random_state : int
            Seed of random halves, answers and attack: the same seed gives the same curve.
        checkpoint : path, optional
            A folder that keeps finished models; a killed run goes on from it.
        progress : callable, optional
            Called with (done, total, what).
        announce : callable, optional
            Called with a sentence before the first model is trained: what so many models can detect.

        Returns
        -------
        RiskCurve
        """
        baseline = self._baseline
        started = time.perf_counter()
        seed = as_count(random_state, name="random_state", least=0)
        level = as_share(confidence, name="confidence")
        targets = _targets(baseline.n_rows, seed)
        n_models = wanted = planned_models(
            shadow_models,
            detect,
            len(targets),
            usual=USUAL_MODELS,
            online=online,
            confidence=level,
        )
        masks = _checked_groups(groups or {}, baseline.n_rows)
        asked = self._read_question(
            Question(epsilon, protect, categories=categories)
            if not together
            else Question(epsilon, protect, masks, categories, together=True),
            self.baseline_,
        )
        is_corrected = as_correction(correction, asked, baseline)
        if together:
            _check_together(asked, is_corrected=is_corrected)
        shadows: RandomisedShadows | AnyShadows
        attacked: Sequence[int] = range(len(asked.epsilons))
        if isinstance(baseline, AnyModel):
            time_given = SECONDS if seconds is None else seconds
            if time_given != math.inf:
                as_positive(time_given, name="seconds")
            store = shadow_store(
                checkpoint,
                baseline,
                asked,
                targets,
                seed=seed,
                most_models=n_models,
                seconds=time_given,
            )
            plan = settled_plan(
                store, partial(_plan, baseline, asked, targets, seed, n_models, time_given)
            )
            n_models, attacked = plan.n_models, plan.attacked
            if detect is not None and n_models < wanted:
                raise InputError(
                    f"{setting('detect', detect)} needs {wanted:,} shadow models, and {time_given:g} seconds are "
                    f"enough for {n_models:,}. Set {setting('seconds')} to more, or ask for a larger effect."
                )
            shadows = AnyShadows(
                baseline, asked, plan, seed, targets, store, progress, [*masks.values()]
            )
        else:
            if seconds is not None:
                raise InputError(
                    f"{setting('seconds')} is for models that are trained again, and this one is linear. Set "
                    f"{setting('shadow_models')}."
                )
            shadows = RandomisedShadows(
                baseline=baseline,
                asked=asked,
                n_models=n_models,
                seed=seed,
                targets=targets,
                checkpoint=checkpoint,
                progress=progress,
                is_corrected=is_corrected,
                groups=[*masks.values()],
            )
        if announce is not None:
            records = len(shadows.targets)
            announce(power_text(n_models, records, confidence=level, online=online))
        attacks, compared, guesses, accuracies = [], [], [], []
        for e, outcome in zip(attacked, shadows.outcomes(), strict=True):
            attacks.append(lira(outcome.scores, outcome.members, online=online, confidence=level))
            # That takes time: methods are compared where most is given away.
            compared.append(
                comparison_numbers(outcome.scores, outcome.members, confidence=level, seed=seed)
                if e == max(attacked)
                else {}
            )
            if outcome.inside is not None and outcome.outside is not None:
                guesses.append([(outcome.inside, outcome.outside), *outcome.groups])
            accuracies.append(float(outcome.accuracy.mean()))
        plain = shadows.guess_without_answer()
        known = KnownColumns.of(
            self._table,
            hidden=set(asked.names) & set(column_names(self._table)),
            label=None if asked.label_is_protected else baseline.label.y,
        )
        truth, log_shares = asked_truth(asked, baseline)
        others = cross_fitted(known, truth, model_generator(seed, 0, "attack"))
        holder = Holder.of(truth, log_shares, others.beliefs)
        people = {EVERYBODY: np.ones(len(truth), dtype=bool), **masks}
        best = [
            best_guess(
                {
                    "most common answer": float(np.bincount(truth[mask]).max()) / int(mask.sum()),
                    "published model": float(plain[number].mean()),
                    **others.rates_of(mask),
                },
                n_people=int(mask.sum()),
                at_least=max(float(found[number][1].mean()) for found in guesses),
            )
            for number, mask in enumerate(people.values())
        ]
        held = [_held(holder, asked, e) for e in range(len(asked.epsilons))]
        places = {e: place for place, e in enumerate(attacked)}
        measured = [
            {"accuracy": accuracy, **membership_numbers(attack), **others}
            for accuracy, attack, others in zip(accuracies, attacks, compared, strict=True)
        ]
        parts = [mask[shadows.targets] for mask in masks.values()]
        exposures = [group_exposures(attack, parts, seed=seed) for attack in attacks]
        cells = [
            RiskCell(
                **_answer_numbers(
                    asked, e, guesses[places[e]][0] if e in places else None, best[0]
                ),
                **holder.rate(held[e]),
                **(measured[places[e]] if e in places else {}),
            )
            for e in range(len(asked.epsilons))
        ]
        group_cells = [
            GroupRiskCell(
                group=name,
                n_people=int(mask.sum()),
                **_answer_numbers(
                    asked,
                    e,
                    guesses[places[e]][number] if e in places else None,
                    best[number],
                    group=name,
                ),
                **holder.rate(held[e], mask),
                **(exposures[places[e]][number - 1] if e in places else {}),
            )
            for number, (name, mask) in enumerate(people.items())
            if name != EVERYBODY
            for e in range(len(asked.epsilons))
        ]
        settings = {
            "mechanism": "rr",
            "correction": "forward" if is_corrected else "none",
            "protect": list(asked.names),
            "epsilon": asked.epsilon_setting(),
            **({"together": True} if together else {}),
            "shadow_models": n_models,
            **({} if detect is None else {"detect": detect}),
            "online": online,
            "confidence": level,
            "baseline_predictor": best[0].predictor,
            "baseline_confidence": CONFIDENCE,
            "holder_predictor": "most common answer"
            if holder.beliefs is None
            else holder.beliefs.predictor,
        }
        notes = list(asked.notes)
        if len(attacked) < len(asked.epsilons):
            notes.append(attacked_note([asked.epsilons[e] for e in attacked]))
        if len(truth) > known.n_training_rows:
            notes.append(
                Note(
                    "baseline-sample",
                    f"the guess from everybody else's data was learnt from {known.n_training_rows} of "
                    f"the {len(truth)} training records, drawn at random. From all of them it may be "
                    "slightly better.",
                )
            )
        return self._curve(
            started, seed, settings, cells, attacks, shadows.targets, notes, asked, group_cells
        )

    def estimate_dp_sgd(
        self,
        *,
        epsilon: float | str | Sequence[float],
        delta: float,
        clip: float = 1.0,
        epochs: int = 20,
        batch: int = 64,
        learning_rate: float = 0.5,
        hidden: Sequence[int] = (),
        shadow_models: int | None = None,
        detect: float | None = None,
        groups: Mapping[str, BoolArray] | None = None,
        online: bool = False,
        confidence: float = 0.95,
        random_state: int = 0,
        checkpoint: str | Path | None = None,
        progress: Progress | None = None,
        announce: Callable[[str], None] | None = None,
    ) -> RiskCurve:
        """Attack models that were trained with DP-SGD, which hides whether a record was there.

        Its ε is of a whole record, with a δ; it is never compared with that of randomised response.
        The model is logistic (or softmax) regression on the features of the study's pipeline, or a
        network with hidden layers.

        Parameters
        ----------
        epsilon : float in (0, inf], list, or grid text such as "0.5:10:8"
            Infinity trains without noise.
        delta : float in (0, 1)
            Well below one over the number of records.
        clip : float
            The largest length of one record's gradient.
        epochs, batch : int
            How often a record is looked at, and how many a step looks at, on average.
        learning_rate : float
        hidden : sequence of int
            Widths of hidden layers; empty for regression.
        groups : mapping of name to array of bool, shape (n,), optional
            Groups of people for whom the membership attack is counted too.
        shadow_models, detect, online, confidence, random_state, checkpoint, progress, announce
            As in `estimate`.

        Returns
        -------
        RiskCurve
            With `asr_ceiling`, which no membership attack can exceed, and `epsilon_lower_bound`, the
            level that the attack refutes everything below of.

        Notes
        -----
        The scaling of the features is learnt from the raw data and not covered by ε.
        """
        baseline = self._baseline
        if isinstance(baseline, AnyModel):
            raise InputError(
                f"{setting('mechanism', 'dpsgd')} trains a network of its own on the features of a linear model, got "
                f"{type(final_step(self.estimator)).__name__}. Use a logistic model, and {setting('hidden')} for a network."
            )
        started = time.perf_counter()
        seed = as_count(random_state, name="random_state", least=0)
        level = as_share(confidence, name="confidence")
        epsilons = read_grid(epsilon)
        grid = [
            DPSGDSettings(
                epsilon=at,
                delta=as_share(delta, name="delta"),
                clip=clip,
                epochs=epochs,
                batch=batch,
                learning_rate=learning_rate,
                hidden=tuple(hidden),
            )
            for at in epsilons
        ]
        if baseline.class_weight is not None or np.ptp(baseline.sample_weights) > 0:
            raise InputError(
                f"DP-SGD has no weights here, but the study has {setting('sample_weight')} or "
                f"{setting('class_weight')}. Leave them out."
            )
        n_rows = baseline.problem.n_rows
        masks = _checked_groups(groups or {}, n_rows)
        targets = _targets(n_rows, seed)
        n_models = planned_models(
            shadow_models,
            detect,
            len(targets),
            usual=USUAL_MODELS,
            online=online,
            confidence=level,
        )
        if announce is not None:
            announce(power_text(n_models, len(targets), confidence=level, online=online))
        outcomes = noisy_outcomes(
            baseline,
            grid,
            n_models=n_models,
            seed=seed,
            targets=targets,
            checkpoint=checkpoint,
            progress=progress,
        )
        cells, attacks = [], []
        group_cells: list[GroupRiskCell] = []
        for chosen, outcome in zip(grid, outcomes, strict=True):
            calibration = chosen.calibration(n_rows / 2)
            attack = lira(
                outcome.scores,
                outcome.members,
                online=online,
                confidence=level,
                delta=chosen.delta,
            )
            attacks.append(attack)
            proven: dict[str, Any] = {
                "epsilon": chosen.epsilon,
                "mechanism": "dpsgd",
                "record_epsilon": chosen.epsilon,
                "delta": chosen.delta,
                "advantage": sampled_advantage(calibration),
                "asr_ceiling": attack_ceiling(calibration),
                **{
                    name: sampled_tpr(calibration, rate, is_replaced=False)
                    for name, rate in CEILING_RATES.items()
                },
                "noise_multiplier": calibration.noise_multiplier,
            }
            cells.append(
                RiskCell(
                    accuracy=float(outcome.accuracy.mean()),
                    epsilon_lower_bound=attack.epsilon_lower_bound,
                    **proven,
                    **membership_numbers(attack),
                    **(
                        comparison_numbers(
                            outcome.scores, outcome.members, confidence=level, seed=seed
                        )
                        if chosen.epsilon == max(epsilons)
                        else {}
                    ),
                )
            )
            parts = [mask[targets] for mask in masks.values()]
            exposures = group_exposures(attack, parts, seed=seed)
            group_cells += [
                GroupRiskCell(group=name, n_people=int(mask.sum()), **proven, **exposed)
                for (name, mask), exposed in zip(masks.items(), exposures, strict=True)
            ]
        settings = {
            "mechanism": "dpsgd",
            "epsilon": list(epsilons),
            "delta": float(delta),
            "clip": clip,
            "epochs": epochs,
            "batch": batch,
            "learning_rate": learning_rate,
            "hidden": list(hidden),
            "shadow_models": n_models,
            **({} if detect is None else {"detect": detect}),
            "online": online,
            "confidence": level,
        }
        scaled = Note(
            "scaled-features",
            "the features are scaled by what the raw data say, which the ε of DP-SGD does not "
            "cover. Scale by public bounds for a release.",
        )
        group_cells.sort(key=lambda cell: list(masks).index(cell.group))
        return self._curve(
            started, seed, settings, cells, attacks, targets, [scaled], group_cells=group_cells
        )

    def _curve(
        self,
        started: float,
        seed: int,
        settings: Mapping[str, object],
        cells: list[RiskCell],
        attacks: list[MembershipAttack],
        targets: NDArray[np.intp],
        notes: Sequence[Note],
        asked: Asked | None = None,
        group_cells: Sequence[GroupRiskCell] = (),
    ) -> RiskCurve:
        baseline = self._baseline
        n_rows, level = baseline.n_rows, attacks[0].confidence
        power = power_note(attacks[0].n_models, len(targets), confidence=level, attacks=attacks)
        said = [*baseline.notes, power, *notes]
        if len(targets) != n_rows:
            said.append(
                Note(
                    "attacked-sample",
                    f"membership was attacked for {len(targets)} of the {n_rows} training records, "
                    "drawn at random: the most exposed record may be among the others.",
                )
            )
        # What the attacks say about records that could not be judged in full, once.
        doubts = [words for attack in attacks if (words := attack.held_out.too_few_models())]
        if doubts:
            said.append(
                Note("few-shadow-models", f"{doubts[0]}. Train more shadow models.", "membership")
            )
        provenance = Provenance(
            method="shadow models",
            settings={
                **settings,
                "estimator": type(self.estimator).__name__,
                "loss": baseline.loss_name,
                **place_of_work(),
            },
            seed=seed,
            simulated=True,
            schema_fingerprint=self._fingerprint,
            seconds=time.perf_counter() - started,
        )
        document = RiskDocument(
            provenance=provenance,
            notes=said,
            number_types=risk_number_types(),
            baseline=baseline.numbers(),
            n_models=attacks[0].n_models,
            n_targets=len(targets),
            protect=[] if asked is None else list(asked.names),
            n_answers=[] if asked is None else list(asked.n_answers),
            cells=cells,
            group_cells=list(group_cells),
        )
        return RiskCurve(document, tuple(attacks), targets, template=self._template)


def asked_truth(
    asked: Asked, baseline: BaselineModel | AnyModel
) -> tuple[NDArray[np.intp], FloatArray]:
    """Return the protected answers of every record as one number, and how common each is."""
    truth, n_candidates = asked.alternatives.codes, math.prod(asked.alternatives.sizes)
    if asked.label_is_protected:
        n_classes = baseline.label.n_classes
        truth = truth * n_classes + baseline.label.y.astype(np.int64)
        n_candidates *= n_classes
    return truth.astype(np.intp), shares_of(truth.astype(np.intp), n_candidates)


def _targets(n_rows: int, seed: int) -> NDArray[np.intp]:
    """Return the records whose membership is attacked: all, or as many as are worth it."""
    if n_rows <= MOST_TARGETS:
        return np.arange(n_rows)
    chosen = model_generator(seed, 0, "attack").permutation(n_rows)[:MOST_TARGETS]
    return np.sort(chosen)


def _plan(
    model: AnyModel,
    asked: Asked,
    targets: NDArray[np.intp],
    seed: int,
    most_models: int,
    seconds: float,
) -> ShadowPlan:
    """Return how many models are trained in the time given, and at which ε."""
    n_fits, started = math.inf, time.perf_counter()
    if math.isfinite(seconds):
        each = seconds_per_shadow(model, asked, targets, seed, seconds=seconds)
        n_fits = (seconds - (time.perf_counter() - started)) / each
    return plan_shadows(len(asked.epsilons), most_models=most_models, n_fits=n_fits)


def _check_together(asked: Asked, *, is_corrected: bool) -> None:
    """Refuse what an attack cannot say of groups at their own ε."""
    (joined,) = asked.groups
    if not joined.mask.all():
        raise InputError(
            f"an attack on groups at their own ε needs everybody in a group, but {int((~joined.mask).sum())} "
            "training records are in none. Add a group for them; inf leaves its answers as they are."
        )
    if is_corrected:
        raise InputError(
            f"{setting('correction')} cannot be attacked where every group has its own ε. Leave it out, "
            "or ask for the cost alone."
        )


def _channels(part: GroupChannels) -> list[RandomizedResponse]:
    """Return the channels of all protected answers of a group's records; the label is the last."""
    features = () if part.features is None else part.features.channels
    channels = [channel for channel in features if isinstance(channel, RandomizedResponse)]
    return channels + ([] if part.label is None else [part.label])


def _held(holder: Holder, asked: Asked, e: int) -> FloatArray:
    """Return how likely the answers of every person are guessed from their reports at the e-th ε."""
    (group,) = asked.groups
    successes = np.zeros(len(holder.people))
    for part in asked.channels(group, e):
        mine = part.group.mask[holder.people]
        successes[mine] = holder.successes(_channels(part))[mine]
    return successes


def _answer_numbers(
    asked: Asked,
    e: int,
    guesses: tuple[FloatArray, FloatArray] | None,
    best: GuessFromOthers,
    *,
    group: str | None = None,
) -> dict[str, Any]:
    """Return what a cell says about guesses of the answers, of everybody or of a group.

    Where groups have their own ε, everybody's budgets are those of the least protected. Without guesses no
    models were attacked at this ε, and only what is proven is known.
    """
    rates: dict[str, Any] = {}
    if guesses is not None:
        inside, outside = guesses
        low, high = np.quantile(inside, [0.05, 0.95], method="weibull")
        rates = {
            "answer_inference_rate": float(inside.mean()),
            "answer_inference_low": float(low),
            "answer_inference_high": float(high),
            "answer_inference_unseen": float(outside.mean()),
        }
    parts = asked.channels(asked.groups[0], e)
    own = {part.group.name: part.epsilon for part in parts} if asked.mixed else None
    if asked.mixed and group is not None:
        parts = tuple(part for part in parts if part.group.name == group)
    advantage = max(ProductChannel(_channels(part)).advantage for part in parts)
    pairs = [[(channel.k, channel.epsilon) for channel in _channels(part)] for part in parts]
    alarms = {
        name: max(randomised_response_tpr(columns, rate) for columns in pairs)
        for name, rate in CEILING_RATES.items()
    }
    record_epsilon = max(part.record_epsilon for part in parts)
    budgets = {part.epsilon for part in parts}
    return {
        "epsilon": None if asked.is_mapping or len(budgets) > 1 else parts[0].epsilon,
        "group_epsilons": own,
        "mechanism": "rr",
        "record_epsilon": record_epsilon,
        "advantage": advantage,
        **alarms,
        **rates,
        "answer_inference_baseline": best.rate,
        "answer_inference_baseline_high": best.high,
        "answer_inference_ceiling": answer_ceiling(
            best.high, epsilon=record_epsilon, advantage=advantage
        ),
    }


def _checked_groups(groups: Mapping[str, BoolArray], n_rows: int) -> dict[str, BoolArray]:
    """Return the groups as arrays of bool; refuse other shapes, and groups of few people."""
    checked = {}
    for name, given in groups.items():
        mask = np.asarray(given)
        if mask.dtype != np.bool_ or mask.shape != (n_rows,):
            raise InputError(
                argument="groups",
                expected=f"true or false for each of the {n_rows} training records",
                got=f"values of type {mask.dtype} in shape {mask.shape} for {name!r}",
            )
        if mask.sum() < FEWEST_PEOPLE:
            raise InputError(
                argument="groups",
                expected=f"at least {FEWEST_PEOPLE} training records in every group",
                got=f"fewer in {name!r}",
                hint="Leave the group out of the attack, or make it larger.",
            )
        if name != EVERYBODY:
            checked[name] = mask
    return checked


def membership_numbers(attack: MembershipAttack) -> dict[str, Any]:
    """Return what a cell says about the membership attack."""
    return {
        "asr_max": attack.asr_max,
        "asr_max_null_q95": attack.asr_max_null[0.95],
        "asr_max_lower_bound": attack.asr_max_lower_bound,
        "asr_max_p_value": attack.asr_max_p_value,
        "asr_mean": attack.asr_mean,
        "asr_mean_lower_bound": attack.held_out.mean_lower_bound(attack.confidence),
        "tpr_at_fpr_0_001": attack.held_out.tpr_at_fpr(0.001),
        "tpr_at_fpr_0_01": attack.held_out.tpr_at_fpr(0.01),
    }
