# SPDX-License-Identifier: Apache-2.0
"""What every what-if benchmark measures: estimates against converged retrainings.

For every group of a study:

- the mean absolute error of each way to estimate over the ε, against the mean of the retrainings;
- for P1's printed formulas also as P1 reckons it, against the mean of the runs' absolute changes;
- how far two halves of the retrainings lie apart, averaged over ways to halve them: no estimator can be
  told from a perfect one much below it;
- error of `exact` over that distance, with a standard error from resampling whole repeats;
- the share of single runs inside the 90 % prediction interval of `exact`, over cells with at least 20
  expected changes, with a standard error clustered by repeat;
- how many cells pass the checks;
- the curves themselves, for the figures.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from epsilens import WhatIf
from epsilens.errors import EstimateNotTrustworthyError, InputError, MissingExtraError

RESULTS = Path(__file__).parent / "results"
WAYS = {rung: {"method": rung} for rung in ("paper", "influence", "newton", "exact")}
"""Ways to estimate: the name of a column and what `estimate` is asked for."""
_HEADS = {
    "paper": "P1's formula",
    "influence": "first order",
    "newton": "Newton",
}
FEWEST_CHANGES = 20
_HALVINGS = 126
_RESAMPLES = 400


@dataclass(frozen=True)
class Row:
    """What was found for one group.

    Attributes
    ----------
    block : str
        Whose answers: "men", "everybody", "features".
    group : str
    error : dict
        Mean absolute error of each way to estimate.
    error_as_p1 : float or None
        Of P1's formula against absolute changes (P1 V, Metrics).
    halves : float
        Mean distance between two halves of the retrainings.
    ratio, ratio_standard_error : float or None
        Error of `exact` over `halves`; None if the retrainings are all alike.
    coverage, coverage_standard_error : float or None
        None without a cell that has enough changes.
    covered_cells, trusted_cells, cells : int
    curve : dict of lists
        For every ε: the retrainings' mean and its standard error, the estimates, the interval.
    """

    block: str
    group: str
    error: dict[str, float]
    error_as_p1: float | None
    halves: float
    ratio: float | None
    ratio_standard_error: float | None
    coverage: float | None
    coverage_standard_error: float | None
    covered_cells: int
    trusted_cells: int
    cells: int
    curve: dict[str, list]


def arguments(description: str, *, repeats: int = 10) -> argparse.Namespace:
    """Read the command line that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--data", type=Path, help="folder with the data sets; without it they are downloaded"
    )
    parser.add_argument("--repeats", type=_at_least_two, default=repeats)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    return parser.parse_args()


def run(main: Callable[[], None]) -> None:
    """Run a benchmark; what the user can mend is one line and exit code 2."""
    said: set[str] = set()

    def say_once(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in said:
            said.add(str(message))
            print(f"note: {message}", file=sys.stderr)

    warnings.showwarning = say_once
    try:
        main()
    except (InputError, MissingExtraError, EstimateNotTrustworthyError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def compare(
    study: WhatIf,
    question: dict,
    *,
    block: str,
    changes: Mapping[str, np.ndarray],
    repeats: int,
    seed: int,
    ways: Mapping[str, Mapping[str, object]] = WAYS,
) -> tuple[list[Row], dict[str, float]]:
    """Return a row per group, and the seconds that each way took.

    Parameters
    ----------
    study : WhatIf
    question : dict
        For `estimate` and `retrain`: protect, epsilon, groups and so on.
    block : str
        The name these rows share.
    changes : mapping of group to array (n_epsilon,)
        The expected number of changed records.
    repeats : int
        Retrainings a cell.
    seed : int
    ways : mapping of name to keywords of `estimate`
        "exact" must be one of them. Another name is the heading of its column.
    """
    seconds, estimates = {}, {}
    for way, keywords in ways.items():
        started = time.perf_counter()
        estimates[way] = study.estimate(**question, **keywords).to_frame()
        seconds[way] = time.perf_counter() - started
    started = time.perf_counter()
    runs = study.retrain(**question, repeats=repeats, random_state=seed).draws()
    seconds["retrain"] = time.perf_counter() - started
    rows = [
        measure_group(
            block,
            name,
            {way: frame[frame["group"] == name] for way, frame in estimates.items()},
            runs[runs["group"] == name],
            expected,
            seed=seed,
        )
        for name, expected in changes.items()
    ]
    return rows, seconds


def measure_group(
    block: str,
    name: str,
    estimates: Mapping[str, pd.DataFrame],
    runs: pd.DataFrame,
    expected: np.ndarray,
    *,
    seed: int,
) -> Row:
    """Measure the estimates of one group against its retrainings."""
    table = runs.pivot(index="epsilon", columns="repeat", values="loss_change")
    values = table.to_numpy()  # (n_epsilon, repeats)
    truth = values.mean(axis=1)
    guess = {way: frame["loss_change"].to_numpy() for way, frame in estimates.items()}
    exact = estimates["exact"]
    low, high = exact["loss_change_low"].to_numpy(), exact["loss_change_high"].to_numpy()
    enough = expected >= FEWEST_CHANGES
    inside = (values >= low[:, None]) & (values <= high[:, None])
    by_repeat = inside[enough].mean(axis=0) if enough.any() else None
    ratio, ratio_error = _ratio(guess["exact"], values, seed=seed)
    spread = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
    return Row(
        block=block,
        group=name,
        error={way: float(np.abs(change - truth).mean()) for way, change in guess.items()},
        error_as_p1=float(np.abs(guess["paper"] - np.abs(values).mean(axis=1)).mean())
        if "paper" in guess
        else None,
        halves=halves_apart(values),
        ratio=ratio,
        ratio_standard_error=ratio_error,
        coverage=None if by_repeat is None else float(by_repeat.mean()),
        coverage_standard_error=None
        if by_repeat is None
        else float(by_repeat.std(ddof=1) / np.sqrt(len(by_repeat))),
        covered_cells=int(enough.sum()),
        trusted_cells=int(exact["trusted"].sum()),
        cells=len(exact),
        curve={
            "epsilon": exact["record_epsilon"].tolist(),
            "retrained": truth.tolist(),
            "retrained_standard_error": spread.tolist(),
            **{way: change.tolist() for way, change in guess.items()},
            "low": low.tolist(),
            "high": high.tolist(),
            "trusted": [bool(trusted) for trusted in exact["trusted"]],
        },
    )


def halves_apart(values: np.ndarray) -> float:
    """Return the mean distance between the means of two halves, over ways to halve the repeats.

    Parameters
    ----------
    values : array (n_epsilon, repeats)
    """
    n, total = values.shape[1], values.sum(axis=1)
    half = n // 2
    # With the first repeat always in the first half no split is counted twice; all 126 of ten.
    ways = islice(combinations(range(1, n), half - 1), _HALVINGS)
    distances = []
    for others in ways:
        first = values[:, [0, *others]].sum(axis=1)
        distances.append(np.abs(first / half - (total - first) / (n - half)).mean())
    return float(np.mean(distances))


def _ratio(
    guess: np.ndarray, values: np.ndarray, *, seed: int
) -> tuple[float | None, float | None]:
    """Return error over halves, and its standard error from resampling whole repeats.

    None where all retrainings are alike, so that there is nothing to divide by.
    """

    def of(runs: np.ndarray) -> float | None:
        apart = halves_apart(runs)
        return float(np.abs(guess - runs.mean(axis=1)).mean()) / apart if apart > 0 else None

    rng = np.random.default_rng(seed)
    n = values.shape[1]
    again = [of(values[:, pick]) for pick in rng.integers(n, size=(_RESAMPLES, n))]
    found = [ratio for ratio in again if ratio is not None]
    return of(values), float(np.std(found, ddof=1)) if len(found) > 1 else None


def markdown(
    rows: Sequence[Row], *, quoted: str = "", paper: Mapping[str, float] | None = None
) -> str:
    """Return the table of some rows.

    Parameters
    ----------
    rows : sequence of Row
    quoted : str
        Heading of the paper's column.
    paper : mapping of group to the paper's printed error, optional
    """
    names = ["group"]
    for way in rows[0].error:
        names.append(_HEADS.get(way, way))
        if way == "paper":
            names.append("P1's formula, as P1 counts")
    names += ["two halves apart", "exact / halves", "90 % interval covers", "trusted cells"]
    if paper:
        names.append(quoted)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in rows:
        cells = [row.group]
        for way, error in row.error.items():
            cells.append(f"{error:.6f}")
            if way == "paper":
                cells.append(f"{row.error_as_p1:.6f}")
        cover = "–"
        if row.coverage is not None:
            cover = f"{row.coverage:.1%} ± {row.coverage_standard_error:.1%}"
        cells += [
            f"{row.halves:.6f}",
            "–" if row.ratio is None else f"{row.ratio:.2f} ± {row.ratio_standard_error:.2f}",
            cover,
            f"{row.trusted_cells} of {row.cells}",
        ]
        if paper:
            cells.append(f"{paper[row.group]:.4f}" if row.group in paper else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write(
    name: str, settings: argparse.Namespace, text: str, rows: Sequence[Row | dict], about: dict
) -> None:
    """Print the tables; keep them and the numbers behind them unless it was a quick run."""
    print(text)
    if settings.quick:
        return
    RESULTS.mkdir(exist_ok=True)
    result = {
        "benchmark": name,
        **about,
        "rows": [row if isinstance(row, dict) else asdict(row) for row in rows],
    }
    (RESULTS / f"{name}.json").write_text(as_json(result))
    (RESULTS / f"{name}.md").write_text(text + "\n")


def as_json(result: dict) -> str:
    """Return a result as text, a row a line."""
    kept = _rounded(result)
    rows = ",\n  ".join(json.dumps(row) for row in kept.pop("rows"))
    head = json.dumps(kept, indent=1).removesuffix("\n}")
    return f'{head},\n "rows": [\n  {rows}\n ]\n}}\n'


def _rounded(value: Any) -> Any:
    """Keep seven digits: more would be noise that changes from machine to machine."""
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _at_least_two(text: str) -> int:
    count = int(text)
    if count < 2:
        raise argparse.ArgumentTypeError("must be 2 or more: one run has no halves")
    return count
