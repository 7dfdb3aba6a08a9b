# SPDX-License-Identifier: Apache-2.0
"""`epsilens audit one-run`: does a mechanism leak more than it claims? Proof by attack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from epsilens.cli.ending import EXIT_LIMIT_NOT_MET
from epsilens.cli.option_groups import ExplainedCommand, option_groups
from epsilens.cli.options import Json, Out, Quiet
from epsilens.errors import InputError

if TYPE_CHECKING:
    from epsilens.audit.bound import Method
    from epsilens.audit.mechanisms import BareCallable, Mechanism
    from epsilens.audit.one_run import OneRunAudit
    from epsilens.audit.scores import Score
    from epsilens.document import AuditDocument


_OUT_SUFFIXES = (".json", ".png", ".svg")
_DEFAULT_DELTA = 1e-6
_LARGEST_CLAIM = 1e8
_LARGEST_NORM = 1e6

_OWN_CANARIES = "a mechanism that makes its own canaries"
_ITS_OWN = "it makes its own canaries"
_NOT_A_SUM = "it publishes no sum of rows"
_NO_VECTORS = "people have answers there, not vectors"
_ITS_NOISE = "its noise is that of its claim"
_NO_ANSWERS = "that is for rr"
_UNUSED: dict[str, dict[str, str]] = {
    "gaussian-sum": {"--norm": "its rows are clipped to 1", "--answers": _NO_ANSWERS},
    "rr": {
        "--dimension": _NO_VECTORS,
        "--directions": _NO_VECTORS,
        "--norm": _NO_VECTORS,
        "--score": _NO_VECTORS,
        "--noise": _ITS_NOISE,
        "--reference-run": "canaries replace an answer there, so that there is no run without them",
    },
    "private-ridge": {
        "--directions": "each canary has a feature of its own",
        "--norm": "its rows are clipped to 1",
        "--score mmse": _NOT_A_SUM,
        "--score centred": _NOT_A_SUM,
        "--noise": _ITS_NOISE,
        "--answers": _NO_ANSWERS,
    },
    "dpsgd": {
        "--dimension": "each canary has a feature of its own",
        "--directions": "each canary has a feature of its own",
        "--norm": "its gradients are clipped",
        "--score mmse": _NOT_A_SUM,
        "--score centred": _NOT_A_SUM,
        "--noise": _ITS_NOISE,
        "--answers": _NO_ANSWERS,
    },
    _OWN_CANARIES: {
        "--dimension": _ITS_OWN,
        "--directions": _ITS_OWN,
        "--norm": _ITS_OWN,
    },
}
"""Options without a meaning for a mechanism, and why."""
_UNUSED_BY_A_CALLABLE = {"--noise": "its noise is its own", "--answers": _NO_ANSWERS}

audit = typer.Typer(
    name="audit",
    help="Check by attack that a mechanism leaks no more than it claims.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


class BoundMethod(StrEnum):
    """The theorems."""

    auto = "auto"
    pure = "pure"
    approximate = "approximate"
    f_dp = "f-dp"
    independent_gdp = "independent-gdp"


_METHODS: dict[BoundMethod, Method] = {
    BoundMethod.pure: "pure",
    BoundMethod.approximate: "approximate",
    BoundMethod.f_dp: "f-dp",
    BoundMethod.independent_gdp: "independent-gdp",
}


class AuditScore(StrEnum):
    """What is made of the output."""

    auto = "auto"
    mmse = "mmse"
    centred = "centred"
    inner_product = "inner-product"


class NoiseChoice(StrEnum):
    """How much noise the Gaussian sum has."""

    exact = "exact"
    printed = "printed"


class DirectionChoice(StrEnum):
    """Where canaries point."""

    random = "random"
    one_hot = "one-hot"


@audit.callback()
def _group() -> None:
    """Check by attack that a mechanism leaks no more than it claims."""


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What is audited and how, as it was typed."""

    mechanism: Annotated[
        str,
        typer.Option(
            "--mechanism",
            metavar="NAME",
            help="gaussian-sum, rr, private-ridge, dpsgd, or MODULE:CALLABLE of your own, which turns an "
            "array of rows into an array; what it prints goes to standard error.",
        ),
    ]
    epsilon: Annotated[
        float, typer.Option("--epsilon", metavar="E", help="The privacy level that is claimed.")
    ]
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta", metavar="D", help="Its delta. Default: 0 for rr, 1e-6 for all others."
        ),
    ] = None
    canaries: Annotated[
        int, typer.Option("--canaries", metavar="N", min=2, help="How many canaries.")
    ] = 1000
    method: Annotated[
        BoundMethod,
        typer.Option(
            "--method",
            metavar="HOW",
            help="auto: pure without delta, approximate with it. f-dp is for Gaussian noise; "
            "independent-gdp also needs canaries that do not disturb each other.",
        ),
    ] = BoundMethod.auto
    selection: Annotated[
        str | None,
        typer.Option(
            "--selection",
            metavar="NAME|N",
            help="How many guesses: path, bonferroni, split, N on each side fixed beforehand, or "
            "as_printed, which is no confidence bound.",
        ),
    ] = None
    confidence: Annotated[
        float, typer.Option("--confidence", metavar="C", help="How often the bound must be right.")
    ] = 0.95
    dimension: Annotated[
        int | None,
        typer.Option(
            "--dimension",
            metavar="D",
            min=1,
            help="Dimensions of the vectors. Default: 10000, or as many as one-hot canaries.",
        ),
    ] = None
    directions: Annotated[
        DirectionChoice | None,
        typer.Option(
            "--directions",
            help="Canaries in random directions, which is the default, or each in its own.",
        ),
    ] = None
    norm: Annotated[
        float | None,
        typer.Option(
            "--norm",
            metavar="X",
            help="MODULE:CALLABLE: length of the canaries. Default: 1. Try 10 to see whether rows are "
            "clipped; the claim is then about a mechanism that clips to 1.",
        ),
    ] = None
    score: Annotated[
        AuditScore,
        typer.Option("--score", help="How the canaries are looked for in a vector output."),
    ] = AuditScore.auto
    noise: Annotated[
        NoiseChoice | None,
        typer.Option(
            "--noise",
            help="gaussian-sum: just enough, which is the default, or the textbook's formula as printed.",
        ),
    ] = None
    answers: Annotated[
        int | None,
        typer.Option(
            "--answers", metavar="K", min=2, help="rr: how many answers there are. Default: 2."
        ),
    ] = None
    reference_run: Annotated[
        bool,
        typer.Option(
            "--reference-run",
            help="Run once more without canaries and look at the difference: finds noise that is "
            "not fresh.",
        ),
    ] = False
    seed: int | None = None

    def study(self) -> OneRunAudit:
        """Return the audit that was asked for."""
        from epsilens.audit.canaries import Canaries, one_hot_directions, random_unit_vectors
        from epsilens.audit.dp_sgd import DPSGDFit, PrivateRidgeFit
        from epsilens.audit.mechanisms import GaussianSum, Mechanism, RandomisedAnswers
        from epsilens.audit.one_run import OneRunAudit
        from epsilens.audit.own_code import load_callable

        typed = {
            "--dimension": self.dimension,
            "--directions": self.directions,
            "--norm": self.norm,
            "--noise": self.noise,
            "--answers": self.answers,
            "--reference-run": self.reference_run or None,
            "--score": None if self.score is AuditScore.auto else self.score,
            f"--score {self.score.value}": self.score,
        }
        _refuse_unused(self.mechanism, typed)
        is_one_hot = self.directions is DirectionChoice.one_hot
        wide = self.dimension or (self.canaries if is_one_hot else 10_000)
        given: int | Canaries = self.canaries
        audited: Mechanism | BareCallable
        claimed_delta = _DEFAULT_DELTA if self.delta is None else self.delta
        if self.mechanism == "gaussian-sum":
            audited = GaussianSum(
                self.epsilon,
                claimed_delta,
                dimension=wide,
                noise="exact" if self.noise is None else self.noise.value,
                directions="one-hot" if is_one_hot else "random",
            )
        elif self.mechanism == "rr":
            audited = RandomisedAnswers(self.epsilon, k=2 if self.answers is None else self.answers)
            claimed_delta = 0.0 if self.delta is None else self.delta
        elif self.mechanism == "private-ridge":
            if self.dimension is not None and self.dimension < self.canaries:
                raise InputError(
                    f"`--dimension` must be at least the number of canaries ({self.canaries}) for "
                    f"private-ridge, got {self.dimension}: each has a feature of its own. Leave it out."
                )
            audited = PrivateRidgeFit(
                self.epsilon, claimed_delta, n_features=self.dimension or self.canaries
            )
        elif self.mechanism == "dpsgd":
            audited = DPSGDFit(self.epsilon, claimed_delta, n_canaries=self.canaries)
        else:
            audited = load_callable(self.mechanism)
            if isinstance(audited, Mechanism):
                _refuse_unused(_OWN_CANARIES, typed)
            else:
                length = _as_norm(self.norm)
                given = (
                    one_hot_directions(self.canaries, wide, norm=length)
                    if is_one_hot
                    else random_unit_vectors(
                        self.canaries, wide, norm=length, random_state=self.seed
                    )
                )
        return OneRunAudit(
            audited,
            canaries=given,
            score=_score(self.score),
            claimed_epsilon=self.epsilon,
            claimed_delta=claimed_delta,
            method=None if self.method is BoundMethod.auto else _METHODS[self.method],
            selection=_selection(self.selection),
            confidence=self.confidence,
            reference_run=self.reference_run,
        )


@audit.command("one-run", cls=ExplainedCommand)
@option_groups
def one_run(
    *,
    asked: AuditOptions,
    out: Out = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            min=0,
            help="Makes coins, canaries and the noise of gaussian-sum, rr, private-ridge and "
            "dpsgd repeatable; a callable's own noise is its own.",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Audit a mechanism from one run: the bound beside the claim and the theoretical level.

    Exit code 3 means that the claim is broken. An honest mechanism gets it by bad luck in at most 5 of
    100 audits, or as many as --confidence leaves: 0.9999 makes it 1 in 10,000.

    Example: [bold]epsilens audit one-run --mechanism gaussian-sum --epsilon 4 --delta 1e-6[/bold]
    """
    from epsilens.cli.own_code import current_folder_first, only_standard_error
    from epsilens.cli.session import check_target, print_json
    from epsilens.document import to_json
    from epsilens.errors import ApproximationWarning

    check_target(out, sources={}, suffixes=_OUT_SUFFIXES)
    _check_claim(asked.epsilon)
    with only_standard_error(), current_folder_first(is_needed=":" in asked.mechanism):
        result = asked.study().run(random_state=seed)
    document = result.document
    for note in document.notes:
        note.warn(ApproximationWarning, stacklevel=2)
    if out is not None:
        _write(document, out)
    if json:
        print_json(to_json(document))
    else:
        _print(document, quiet=quiet, out=out)
    return EXIT_LIMIT_NOT_MET if document.is_broken else 0


def _refuse_unused(mechanism: str, typed: Mapping[str, object]) -> None:
    """Refuse options that a mechanism has no use for: left unsaid, they would be thought to matter."""
    for option, why in _UNUSED.get(mechanism, _UNUSED_BY_A_CALLABLE).items():
        if typed.get(option) is not None:
            raise InputError(f"`{option}` must be left out for {mechanism}: {why}.")


def _as_norm(norm: float | None) -> float:
    if norm is None:
        return 1.0
    if (
        not 1.0 / _LARGEST_NORM <= norm <= _LARGEST_NORM
    ):  # beyond, single precision loses the canaries
        raise InputError(
            f"`--norm` must lie between {1.0 / _LARGEST_NORM:g} and {_LARGEST_NORM:g}, got {norm!r}. Use "
            "for instance 10."
        )
    return norm


def _check_claim(epsilon: float) -> None:
    if not 0.0 < epsilon <= _LARGEST_CLAIM:
        raise InputError(
            f"`--epsilon` must be greater than 0 and at most {_LARGEST_CLAIM:g}, got {epsilon!r}. "
            "Type the level that is claimed."
        )


def _score(choice: AuditScore) -> Score | None:
    from epsilens.audit.scores import Centred, InnerProduct, LinearMMSE

    if choice is AuditScore.mmse:
        return LinearMMSE()
    if choice is AuditScore.centred:
        return Centred()
    return InnerProduct() if choice is AuditScore.inner_product else None


def _selection(text: str | None) -> str | int | None:
    if text is None:
        return None
    return int(text) if text.isdecimal() else text


def _write(document: AuditDocument, out: str) -> None:
    from pathlib import Path

    from epsilens.data import write_text
    from epsilens.document import to_json
    from epsilens.show import audit_chart, save_chart

    if Path(out).suffix.lower() == ".json":
        write_text(to_json(document) + "\n", out)
    else:
        save_chart(audit_chart(document), out)


def _print(document: AuditDocument, *, quiet: bool, out: str | None) -> None:
    from rich.console import Console
    from rich.text import Text

    from epsilens.document import view
    from epsilens.show import document_table

    console = Console()
    if not quiet:
        console.print(document_table(document))
    console.print(Text(view(document).sentence), soft_wrap=True)
    if out is not None and not quiet:
        console.print(Text(f"Written: {out}"), soft_wrap=True)
