# SPDX-License-Identifier: Apache-2.0
"""`epsilens audit`: does a mechanism leak more than it claims? Proof by attack, one's own or somebody else's."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from epsilens.cli.ending import EXIT_LIMIT_NOT_MET
from epsilens.cli.option_groups import (
    ExplainedCommand,
    choice,
    current_folder_first,
    option,
    option_groups,
    switch,
)
from epsilens.cli.options import Delimiter, Encoding, delimiter_from
from epsilens.cli.output import Json, Out, Output, Quiet
from epsilens.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from epsilens._types import BoolArray, FloatArray
    from epsilens.audit.mechanisms import BareCallable, Mechanism
    from epsilens.audit.one_run import OneRunAudit
    from epsilens.document import AuditDocument

# --- Code of the user's own inside a command: where it is found, and where what it prints goes ---


@contextmanager
def only_standard_error() -> Iterator[None]:
    """Send to standard error what code of the user's own prints: standard output is the result's.

    Done for Python, and for the file that C code and other programs write to.
    """
    printed = sys.stdout
    if printed is not None:
        printed.flush()
    kept = -1
    try:
        elsewhere = os.dup(2)
    except OSError:  # a shell can close it: `2>&-`
        elsewhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError):  # `>&-`
        kept = os.dup(1)
        os.dup2(elsewhere, 1)
    os.close(elsewhere)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            if printed is not None:
                printed.flush()
        if kept >= 0:
            _flush_c()
            os.dup2(kept, 1)
            os.close(kept)


def _flush_c() -> None:
    """Let C code that was loaded write out what it holds back, where the system has the means."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).fflush(None)


# --- `epsilens audit one-run`: does a mechanism leak more than it claims? Proof by attack ---

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


BoundMethod = Literal[
    "auto", "pure", "approximate", "f-dp", "independent-gdp", "gaussian-scores", "residual"
]
"""The theorems."""


AuditScore = Literal["auto", "mmse", "centred", "inner-product"]
"""What is made of the output."""


NoiseChoice = Literal["exact", "printed"]
"""How much noise the Gaussian sum has."""


DirectionChoice = Literal["random", "one-hot"]
"""Where canaries point."""


@audit.callback()
def _group() -> None:
    """Check by attack that a mechanism leaks no more than it claims."""


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What is audited and how, as it was typed."""

    mechanism: Annotated[
        str,
        option(
            "gaussian-sum, rr, private-ridge, dpsgd, or MODULE:CALLABLE of your own, which turns an "
            "array of rows into an array; what it prints goes to standard error.",
            "NAME",
        ),
    ]
    epsilon: Annotated[float, option("The privacy level that is claimed.", "E")]
    delta: Annotated[
        float | None, option("Its delta. Default: 0 for rr, 1e-6 for all others.", "D")
    ] = None
    canaries: Annotated[int, option("How many canaries.", "N", min=2)] = 1000
    method: Annotated[
        BoundMethod,
        choice(
            BoundMethod,
            "auto: pure without delta, approximate with it. f-dp is for Gaussian noise; "
            "independent-gdp also needs canaries that do not disturb each other; gaussian-scores takes the scores "
            "to be normal; residual looks at the noise of a noisy sum.",
            "HOW",
        ),
    ] = "auto"
    selection: Annotated[
        str | None,
        option(
            "How many guesses: path, bonferroni, split, N on each side fixed beforehand, weighted (all, "
            "surer ones count more), or as_printed, which is no confidence bound.",
            "NAME|N",
        ),
    ] = None
    confidence: Annotated[float, option("How often the bound must be right.", "C")] = 0.95
    dimension: Annotated[
        int | None,
        option(
            "Dimensions of the vectors. Default: 10000, or as many as one-hot canaries.", "D", min=1
        ),
    ] = None
    directions: Annotated[
        DirectionChoice | None,
        choice(
            DirectionChoice,
            "Canaries in random directions, which is the default, or each in its own.",
        ),
    ] = None
    norm: Annotated[
        float | None,
        option(
            "MODULE:CALLABLE: length of the canaries. Default: 1. Try 10 to see whether rows are "
            "clipped; the claim is then about a mechanism that clips to 1.",
            "X",
        ),
    ] = None
    score: Annotated[
        AuditScore, choice(AuditScore, "How the canaries are looked for in a vector output.")
    ] = "auto"
    noise: Annotated[
        NoiseChoice | None,
        choice(
            NoiseChoice,
            "gaussian-sum: just enough, which is the default, or the textbook's formula as printed.",
        ),
    ] = None
    answers: Annotated[
        int | None, option("rr: how many answers there are. Default: 2.", "K", min=2)
    ] = None
    reference_run: Annotated[
        bool,
        switch(
            "--reference-run",
            "Run once more without canaries and look at the difference: finds noise that is "
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
        from epsilens.audit.scores import Centred, InnerProduct, LinearMMSE, Score

        typed = {
            "--dimension": self.dimension,
            "--directions": self.directions,
            "--norm": self.norm,
            "--noise": self.noise,
            "--answers": self.answers,
            "--reference-run": self.reference_run or None,
            "--score": None if self.score == "auto" else self.score,
            f"--score {self.score}": self.score,
        }
        _refuse_unused(self.mechanism, typed)
        is_one_hot = self.directions == "one-hot"
        wide = self.dimension or (self.canaries if is_one_hot else 10_000)
        given: int | Canaries = self.canaries
        audited: Mechanism | BareCallable
        claimed_delta = _DEFAULT_DELTA if self.delta is None else self.delta
        if self.mechanism == "gaussian-sum":
            audited = GaussianSum(
                self.epsilon,
                claimed_delta,
                dimension=wide,
                noise="exact" if self.noise is None else self.noise,
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
                length = 1.0 if self.norm is None else self.norm
                # Beyond, single precision loses the canaries.
                if not 1.0 / _LARGEST_NORM <= length <= _LARGEST_NORM:
                    raise InputError(
                        f"`--norm` must lie between {1.0 / _LARGEST_NORM:g} and {_LARGEST_NORM:g}, got "
                        f"{length!r}. Use for instance 10."
                    )
                given = (
                    one_hot_directions(self.canaries, wide, norm=length)
                    if is_one_hot
                    else random_unit_vectors(
                        self.canaries, wide, norm=length, random_state=self.seed
                    )
                )
        scores: dict[str, Score] = {
            "mmse": LinearMMSE(),
            "centred": Centred(),
            "inner-product": InnerProduct(),
        }
        typed_count = self.selection is not None and self.selection.isdecimal()
        return OneRunAudit(
            audited,
            canaries=given,
            score=scores.get(self.score),
            claimed_epsilon=self.epsilon,
            claimed_delta=claimed_delta,
            method=None if self.method == "auto" else self.method,
            selection=int(str(self.selection)) if typed_count else self.selection,
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
        option(
            "Makes coins, canaries and the noise of gaussian-sum, rr, private-ridge and "
            "dpsgd repeatable; a callable's own noise is its own.",
            "N",
            min=0,
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
    output = Output(json=json, out=out, quiet=quiet)
    output.check((".json", ".png", ".svg"), {})
    if not 0.0 < asked.epsilon <= _LARGEST_CLAIM:
        raise InputError(
            f"`--epsilon` must be greater than 0 and at most {_LARGEST_CLAIM:g}, got {asked.epsilon!r}. "
            "Type the level that is claimed."
        )
    with only_standard_error(), current_folder_first(is_needed=":" in asked.mechanism):
        document = asked.study().run(random_state=seed).document
    return _show(output, document)


# --- `epsilens audit scores`: scores that another program made ---

_INCLUDED = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """What is claimed and how it is tested, as it was typed."""

    epsilon: Annotated[
        float | None, option("The privacy level that is claimed. Default: the bound alone.", "E")
    ] = None
    delta: Annotated[float, option("Its delta.", "D")] = 0.0
    method: Annotated[
        BoundMethod,
        choice(
            BoundMethod,
            "auto: pure without delta, approximate with it. f-dp is for Gaussian noise; "
            "gaussian-scores takes the scores to be normal.",
            "HOW",
        ),
    ] = "auto"
    selection: Annotated[
        str | None,
        option("How many guesses: path, bonferroni, split, weighted, or N on each side.", "NAME|N"),
    ] = None
    confidence: Annotated[float, option("How often the bound must be right.", "C")] = 0.95
    delimiter: Delimiter = None
    encoding: Encoding = None


@audit.command("scores", cls=ExplainedCommand)
@option_groups
def scores(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="csv or parquet with a row for each canary and the columns `included` (1 or 0) and "
            "`score` (high where it seems to be in); - for standard input.",
        ),
    ],
    *,
    asked: ScoreOptions,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Audit a run of any trainer from the scores of its canaries: the bound beside the claim.

    Toss a fair coin for every canary before the run. Make the scores from what was released, without looking at
    the coins. Exit code 3 means that the claim is broken.

    Example: [bold]epsilens audit scores scores.csv --epsilon 4 --delta 1e-6[/bold]
    """
    from epsilens.audit.result import audit_scores
    from epsilens.data import read_table

    output = Output(json=json, out=out, quiet=quiet)
    output.check((".json", ".png", ".svg"), {})
    if asked.epsilon is not None and not 0.0 < asked.epsilon <= _LARGEST_CLAIM:
        raise InputError(
            f"`--epsilon` must be greater than 0 and at most {_LARGEST_CLAIM:g}, got {asked.epsilon!r}. "
            "Type the level that is claimed."
        )
    table = read_table(file, delimiter=delimiter_from(asked.delimiter), encoding=asked.encoding)
    included, values = _coins_and_scores(table.frame)
    typed_count = asked.selection is not None and asked.selection.isdecimal()
    found = audit_scores(
        included,
        values,
        claimed_epsilon=asked.epsilon,
        claimed_delta=asked.delta,
        method=None if asked.method == "auto" else asked.method,
        selection=int(str(asked.selection)) if typed_count else asked.selection,
        confidence=asked.confidence,
    )
    return _show(output, found.document)


def _coins_and_scores(frame: pd.DataFrame) -> tuple[BoolArray, FloatArray]:
    """Return inclusion and scores of a table; no value of it is named in an error."""
    import numpy as np
    import pandas as pd

    named = {}
    for name in ("included", "score"):
        # Capitals do not matter where one column is meant.
        alike = [column for column in frame.columns if str(column).strip().lower() == name]
        if name in frame.columns:
            named[name] = frame[name]
        elif len(alike) == 1:
            named[name] = frame[alike[0]]
        else:
            raise InputError(
                f"the file must have the columns `included` and `score`, and {name!r} was not found. "
                "Give every canary a row."
            )
    words = named["included"].astype(str).str.strip().str.lower().str.removesuffix(".0")
    coins = words.map(_INCLUDED)
    if (n_other := int(coins.isna().sum())) > 0:
        raise InputError(
            f"the column `included` must hold 1 or 0, but {n_other} of {len(frame)} rows hold something "
            "else. Write 1 for a canary that was in."
        )
    values = pd.to_numeric(named["score"], errors="coerce").to_numpy(dtype=np.float64)
    if n_missing := int(np.isnan(values).sum()):
        raise InputError(
            f"the column `score` must hold numbers, but {n_missing} of {len(frame)} rows hold none. Give a "
            "canary without an opinion the middle score."
        )
    if n_infinite := int(np.isinf(values).sum()):
        raise InputError(
            f"the column `score` must hold finite numbers, but {n_infinite} of {len(frame)} rows are infinite or "
            "above 1e308. Only their order counts: write their ranks."
        )
    return coins.to_numpy(dtype=np.bool_), values


def _show(output: Output, document: AuditDocument) -> int:
    """Write and print an audit; return the exit code."""
    from epsilens.document import view
    from epsilens.errors import ApproximationWarning
    from epsilens.show import audit_chart

    for note in document.notes:
        note.warn(ApproximationWarning, stacklevel=3)
    output.write(document, chart=audit_chart)
    output.show(document, sentences=[view(document).sentence], one_line=True)
    return EXIT_LIMIT_NOT_MET if document.is_broken else 0


def _refuse_unused(mechanism: str, typed: Mapping[str, object]) -> None:
    """Refuse options that a mechanism has no use for: left unsaid, they would be thought to matter."""
    for name, why in _UNUSED.get(mechanism, _UNUSED_BY_A_CALLABLE).items():
        if typed.get(name) is not None:
            raise InputError(f"`{name}` must be left out for {mechanism}: {why}.")
