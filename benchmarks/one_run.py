#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""P3's three figures: one-run bounds on a Gaussian sum over ε, the number of canaries and dimensions.

Every audit is given to us and to jax_privacy with the same scores, those that P3 prescribes and those
that we take by default. The noise is P3's, and the truth is that of the noise.

    python benchmarks/one_run.py [--quick] [--repeats 20] [--peers DIR]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from epsilens.audit import (
    GaussianSum,
    InnerProduct,
    OneRunAudit,
    draw_inclusion,
    gaussian_epsilon,
    one_run_bound,
    printed_noise,
)
from epsilens.audit.residuals import residual_bound
from epsilens.errors import InputError
from timing import PEERS, environment_of, keep, python_of

DELTA, LEVEL = 1e-6, 0.05
EPSILONS = (1, 2, 4, 8, 16)
N_CANARIES = (64, 256, 1024, 4096, 16384)
DIMENSIONS = (10, 100, 1_000, 10_000, 100_000)
BARS = (8, 16)
BAR = 1.25
"""A quarter more than the peer is asked for there."""
PEERS_BOUND = {"approximate": "jax one-run", "f-dp": "jax f-DP"}
PAIRS = {
    "same scores on both sides, P3's": ("P3", "P3"),
    "same scores on both sides, ours": ("ours", "ours"),
    "not like with like: ours with our score, theirs with P3's": ("ours", "P3"),
}
"""Whose scores our bound and the peer's are given."""

OURS = {
    "as printed": {"selection": "as_printed"},
    "pure": {},
    "approximate": {"delta": DELTA},
    "approximate, Bonferroni": {"delta": DELTA, "selection": "bonferroni"},
    "approximate, weighted": {"delta": DELTA, "selection": "weighted"},
    "f-dp": {"delta": DELTA, "method": "f-dp"},
}
FIXED = (5, 7, 10, 15, 20)
"""Guesses on each side, fixed beforehand, in per cent of the canaries."""
FAMILIES = {
    "(ε, δ)": ("approximate", "jax one-run"),
    "f-dp": ("f-dp", "jax f-DP"),
    "normal scores": ("gaussian-scores", "jax GDP"),
}
"""Our bounds and the peer's that assume the same, by the beginnings of their names."""
BEST_BAR = 1.1
"""A tenth more than the peer's best setting is asked for."""


@dataclass(frozen=True)
class Point:
    """One point of a sweep.

    Attributes
    ----------
    sweep : {"epsilon", "canaries", "dimension"}
    epsilon, m, d : what the noise is made for, canaries, dimensions
    repeats : how many audits
    """

    sweep: str
    epsilon: float
    m: int
    d: int
    repeats: int

    @property
    def place(self) -> float:
        """What is varied."""
        return {"epsilon": self.epsilon, "canaries": self.m, "dimension": self.d}[self.sweep]


@dataclass
class Found:
    """The bounds of all audits of a point, by scores and bound."""

    bounds: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    def add(self, scores: str, bound: str, value: float) -> None:
        self.bounds.setdefault((scores, bound), []).append(value)

    def mean(self, scores: str, bound: str) -> float:
        return float(np.mean(self.bounds.get((scores, bound), [math.nan])))

    def standard_error(self, scores: str, bound: str) -> float:
        values = self.bounds.get((scores, bound), [])
        return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0

    def ratio(self, ours: tuple[str, str], theirs: tuple[str, str]) -> float:
        return self.mean(*ours) / self.mean(*theirs) if self.mean(*theirs) > 0 else math.nan

    def ratio_error(self, ours: tuple[str, str], theirs: tuple[str, str]) -> float:
        """Return the standard error of a ratio of means, both bounds being of the same audits."""
        ratio = self.ratio(ours, theirs)
        if math.isnan(ratio) or len(self.bounds[ours]) < 2:
            return math.nan
        left = np.array(self.bounds[ours]) - ratio * np.array(self.bounds[theirs])
        return float(np.std(left, ddof=1) / math.sqrt(left.size) / self.mean(*theirs))


def points(settings: argparse.Namespace) -> list[Point]:
    if settings.quick:
        few = 3
        return [
            *(Point("epsilon", e, 400, 2_000, few) for e in EPSILONS),
            *(Point("canaries", 16, m, 2_000, few) for m in N_CANARIES[:3]),
            *(Point("dimension", 16, 400, d, few) for d in DIMENSIONS[:3]),
        ]
    many = settings.repeats
    shorter = {4096: max(many // 2, 2), 16384: max(many // 5, 2)}
    # Where bounds are near 0 they spread as much as they amount to, and a ratio of means of few is noise.
    # At the bars it is to be told whether a ratio is 1.25.
    longer = {1: 8 * many, 2: 4 * many, **dict.fromkeys(BARS, 6 * many)}
    dimensions = {10: 8 * many, 100_000: many // 2}
    return [
        *(Point("epsilon", e, 1000, 10_000, longer.get(e, many)) for e in EPSILONS),
        *(Point("canaries", 16, m, 10_000, shorter.get(m, many)) for m in N_CANARIES),
        *(Point("dimension", 16, 1000, d, dimensions.get(d, many)) for d in DIMENSIONS),
    ]


def audit(point: Point, seed: int, found: Found) -> dict[str, np.ndarray]:
    """Run the mechanism once and bound it in all ways; return what the peer needs."""
    started = time.perf_counter()
    rng = np.random.default_rng([seed, point.m, point.d])
    mechanism = GaussianSum(
        point.epsilon,
        DELTA,
        dimension=point.d,
        noise="printed",
        generator=np.random.default_rng([seed, point.m, point.d, 1]),
    )
    canaries = mechanism.canaries(point.m, rng)
    included = draw_inclusion(point.m, rng)
    output = mechanism(canaries.dataset(included))
    both = {"P3": InnerProduct()(output, canaries), "ours": mechanism.score()(output, canaries)}
    for scores, values in both.items():
        for bound, rule in OURS.items():
            if bound == "as printed" and scores == "ours":
                continue
            found.add(scores, bound, one_run(included, values, **rule))
        for share in FIXED:
            count = max(point.m * share // 100, 1)
            fixed = {"delta": DELTA, "selection": count}
            found.add(scores, f"approximate, {share} %", one_run(included, values, **fixed))
            fixed["method"] = "f-dp"
            found.add(scores, f"f-dp, {share} %", one_run(included, values, **fixed))
        with contextlib.suppress(InputError):  # too few canaries, or scores that do not look normal
            normal = {"delta": DELTA, "method": "gaussian-scores"}
            found.add(scores, "gaussian-scores", one_run(included, values, **normal))
    with contextlib.suppress(InputError):
        noise = residual_bound(output, canaries, included, delta=DELTA, level=LEVEL)
        found.add("output", "residual", noise.epsilon_lower_bound)
    found.seconds.append(time.perf_counter() - started)
    return {"included": included, **both}


def one_run(included: np.ndarray, scores: np.ndarray, **rule: object) -> float:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # exactly half may be in by chance
        return one_run_bound(included, scores, confidence=1 - LEVEL, **rule).epsilon_lower_bound


def independent(epsilon: float, repeats: int, *, m: int) -> list[float]:
    """Audit with a direction for each canary, where the tightest bound is valid."""
    return [
        OneRunAudit(
            GaussianSum(
                epsilon,
                DELTA,
                dimension=m,
                noise="printed",
                directions="one-hot",
                generator=np.random.default_rng([seed, 7]),
            ),
            canaries=m,
            method="independent-gdp",
        )
        .run(random_state=seed)
        .epsilon_lower_bound
        for seed in range(repeats)
    ]


def ask_the_peer(problem: dict[str, np.ndarray], peers: Path) -> dict | str:
    """Return jax_privacy's answers, or in one line why there are none."""
    python = python_of("jax", peers)
    if not python.exists():
        return "environment 'jax' is not there: run `make peers`"
    program = Path(__file__).parent / "peers" / "audit_with_jax_privacy.py"
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "scores.npz", Path(folder) / "answer.json"
        np.savez(file, delta=DELTA, level=LEVEL, **problem)
        done = subprocess.run(
            [str(python), str(program), "--problem", str(file), "--out", str(out)],
            check=False,
            capture_output=True,
            text=True,
            env=environment_of(1, is_own=False),
        )
        if done.returncode != 0:
            return next(iter(done.stderr.strip().splitlines()[-1:]), "stopped without a word")
        return json.loads(out.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="not used: nothing is read")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--peers", type=Path, default=PEERS)
    parser.add_argument("--quick", action="store_true", help="small, not written down")
    settings = parser.parse_args()
    results: list[tuple[Point, Found]] = []
    peer = "–"
    for point in points(settings):
        found, problem = Found(), {}
        for seed in range(point.repeats):
            given = audit(point, seed, found)
            for scores in ("P3", "ours"):
                problem[f"{scores}/{seed}.included"] = given["included"]
                problem[f"{scores}/{seed}.scores"] = given[scores]
        answer = ask_the_peer(problem, settings.peers)
        if isinstance(answer, str):
            print(f"jax_privacy: not available: {answer}", file=sys.stderr)
        else:
            peer = f"jax_privacy {answer['version']}"
            for name, bounds in answer["bounds"].items():
                for bound, value in bounds.items():
                    found.add(name.split("/")[0], bound, value)
        results.append((point, found))
        print(point, {" ".join(k): round(found.mean(*k), 3) for k in found.bounds}, file=sys.stderr)
    m = 400 if settings.quick else 1000
    own = {e: independent(e, 3 if settings.quick else settings.repeats, m=m) for e in EPSILONS}
    keep(
        "one-run",
        markdown(results, own, peer),
        as_json(results, own, peer),
        is_quick=settings.quick,
    )


_TITLES = {
    "epsilon": (
        "Over ε (P3 Q2.1)",
        "nominal ε",
        "The bound grows with ε and stays far below it. Even if all r guesses are right, pure and (ε, δ) "
        "bounds prove no more than about ln(r/3), and they allow for mechanisms that are worse than Gaussian "
        "noise. Who may assume the Gaussian shape (f-dp) gets about half of the truth; who may assume "
        "independent canaries as well (last table) most of it. P3's formula for the noise is proved for "
        "ε ≤ 1 only: the truth at a nominal 16 is 18.3.",
    ),
    "canaries": (
        "Over the number of canaries m (P3 Q2.2)",
        "m",
        "More canaries, more guesses, a larger ln(r): the bound rises at first. But every canary is noise to "
        "all others, of variance m/4d in a score, against σ² = 0.11 of the mechanism: with P3's score the "
        "bound falls again above m ≈ 1,000. The linear estimate takes most of that disturbance away, so "
        "that its best m is four times as large.",
    ),
    "dimension": (
        "Over the dimension d (P3 Q2.3)",
        "d",
        "In few dimensions a thousand directions cannot be told apart: m ≫ d, and the sum says little about "
        "any one. The disturbance m/4d falls with d until the mechanism's own noise is all that is left. "
        "The task becomes easier as d grows, up to that limit.",
    ),
}


def markdown(results: list[tuple[Point, Found]], own: dict[int, list[float]], peer: str) -> str:
    parts = [
        f"One run of P3's Gaussian sum, 95 %, δ = {DELTA:g}; means of the audits, ± their standard error. "
        f"P3's score is ⟨x, out⟩; ours the linear estimate. Peer: {peer}, its default thresholds, on the "
        "very same scores. Path is the choice of guesses of pure and (ε, δ), three counts by Bonferroni that "
        "of f-dp.",
    ]
    for sweep, (title, name, why) in _TITLES.items():
        rows = [(point, found) for point, found in results if point.sweep == sweep]
        lines = [
            f"### {title}",
            "",
            f"| {name} | truth | as printed (no bound) | jax one-run, P3's score | (ε, δ), P3's score "
            "| (ε, δ), our score | ours / theirs | jax f-DP, P3's score | f-dp, P3's score "
            "| f-dp, our score | ours / theirs | audits |",
            "|" + "---|" * 12,
        ]
        for point, found in rows:
            truth = gaussian_epsilon(1 / printed_noise(point.epsilon, DELTA), DELTA)
            cells = [
                f"{point.place:,g}",
                f"{truth:.2f}",
                _cell(found, "P3", "as printed"),
                _cell(found, "P3", "jax one-run"),
                _cell(found, "P3", "approximate"),
                _cell(found, "ours", "approximate"),
                _ratio(found, "approximate", "jax one-run"),
                _cell(found, "P3", "jax f-DP"),
                _cell(found, "P3", "f-dp"),
                _cell(found, "ours", "f-dp"),
                _ratio(found, "f-dp", "jax f-DP"),
                str(point.repeats),
            ]
            lines.append("| " + " | ".join(cells) + " |")
        parts += ["\n".join(lines), why]
    parts.append(
        "“Ours / theirs” is our bound over the peer's, first with the same scores for both (P3's), then with "
        "ours for both, then our whole audit over the peer's with P3's score."
    )
    parts += at_the_bars(results)
    parts += best_against_best(results)
    lines = [
        "### With a direction for each canary (independent-gdp)",
        "",
        "| nominal ε | truth | bound |",
        "|---|---|---|",
    ]
    for epsilon, bounds in own.items():
        truth = gaussian_epsilon(1 / printed_noise(epsilon, DELTA), DELTA)
        error = float(np.std(bounds, ddof=1) / math.sqrt(len(bounds)))
        lines.append(f"| {epsilon} | {truth:.2f} | {np.mean(bounds):.2f} ± {error:.2f} |")
    parts.append("\n".join(lines))
    usual = next((f for p, f in results if p.sweep == "epsilon" and p.d == 10_000), results[0][1])
    parts.append(
        f"An audit with all these bounds (m = 1,000, d = 10,000) took {np.median(usual.seconds):.1f} s; the "
        f"largest resident set was {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB."
    )
    return "\n\n".join(parts)


def at_the_bars(results: list[tuple[Point, Found]]) -> list[str]:
    """Return what is said and shown of the ratios where a quarter more is asked for."""
    bars = ratios_at_the_bars(results)
    lines = [
        "### A quarter more than the peer?",
        "",
        "| bound | nominal ε | " + " | ".join(PAIRS) + " | audits |",
        "|" + "---|" * (len(PAIRS) + 3),
    ]
    said = []
    for bound, words in (("approximate", "(ε, δ)"), ("f-dp", "f-dp")):
        for point, _ in _bar_points(results):
            row = [bars[pair][f"{bound} at {point.epsilon:g}"] for pair in PAIRS]
            lines.append(
                f"| {words} | {point.epsilon:g} | "
                + " | ".join(_with_error(each) for each in row)
                + f" | {point.repeats} |"
            )
            if not math.isnan(row[0]["ratio"]):
                said.append(f"{words} at ε = {point.epsilon:g}: {_against_the_bar(row[0])}")
    text = (
        "Our bound over the peer's, ratios of means with their standard errors over audits. Only the columns "
        "with the same scores on both sides compare bounds; the last compares whole audits, of which the "
        "score does a part."
    )
    if said:
        text += f" With P3's score on both sides {'; '.join(said)}."
    return ["\n".join(lines), text]


def best_of(found: Found, scores: str, beginning: str) -> str | None:
    """Return the setting whose bound has the largest mean: chosen after looking, on both sides."""
    names = [
        bound
        for kind, bound in found.bounds
        if kind == scores and (bound == beginning or bound.startswith(f"{beginning},"))
    ]
    return max(names, key=lambda name: found.mean(scores, name), default=None)


def ratios_of_the_best(results: list[tuple[Point, Found]]) -> list[dict[str, object]]:
    """Return our best setting over the peer's best, with the same scores, by what both assume."""
    rows: list[dict[str, object]] = []
    for family, (ours, theirs) in FAMILIES.items():
        for point, found in _bar_points(results):
            for scores in ("P3", "ours"):
                own, other = (best_of(found, scores, name) for name in (ours, theirs))
                if own is None or other is None:
                    continue
                # Audits that were refused have no bound: there the peer's is left out as well.
                ratio = found.mean(scores, own) / found.mean(scores, other)
                errors = [found.standard_error(scores, name) for name in (own, other)]
                means = [found.mean(scores, name) for name in (own, other)]
                paired = len(found.bounds[scores, own]) == len(found.bounds[scores, other])
                error = (
                    found.ratio_error((scores, own), (scores, other))
                    if paired
                    else ratio * math.hypot(errors[0] / means[0], errors[1] / means[1])
                )
                rows.append(
                    {
                        "family": family,
                        "epsilon": point.epsilon,
                        "scores": scores,
                        "ours": own,
                        "theirs": other,
                        "our_mean": means[0],
                        "their_mean": means[1],
                        "ratio": ratio,
                        "standard_error": error,
                        "audits": len(found.bounds[scores, own]),
                    }
                )
    return rows


def best_against_best(results: list[tuple[Point, Found]]) -> list[str]:
    """Return the table of both sides' best settings, and the bounds that look at noise itself."""
    rows = ratios_of_the_best(results)
    lines = [
        "### Best setting against best setting",
        "",
        "| assumed | nominal ε | scores | our best | bound | peer's best | bound | ratio | audits |",
        "|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {row['family']} | {row['epsilon']:g} | {row['scores']} | {row['ours']} | {row['our_mean']:.2f} | "
            f"{row['theirs']} | {row['their_mean']:.2f} | {row['ratio']:.3f} ± {row['standard_error']:.3f} | "
            f"{row['audits']} |"
            for row in rows
        ),
    ]
    text = (
        "Both sides choose the setting with the largest mean after looking: thresholds at quantiles of all scores, "
        "`Split` and Bonferroni for the peer; path, weighted, Bonferroni and fixed numbers of guesses for us. "
        "`jax GDP` is `epsilon_from_gdp`, which assumes as gaussian-scores does that scores are normal."
    )
    noise = [
        f"at a nominal ε of {point.epsilon:g} {found.mean('output', 'residual'):.2f} ± "
        f"{found.standard_error('output', 'residual'):.2f}"
        for point, found in _bar_points(results)
        if ("output", "residual") in found.bounds
    ]
    if noise:
        text += f" Who may look at the noise itself (`residual`, for noisy sums) proves most: {', '.join(noise)}."
    return ["\n".join(lines), text]


def _bar_points(results: list[tuple[Point, Found]]) -> list[tuple[Point, Found]]:
    return [(p, found) for p, found in results if p.sweep == "epsilon" and p.epsilon in BARS]


def ratios_at_the_bars(
    results: list[tuple[Point, Found]],
) -> dict[str, dict[str, dict[str, float]]]:
    """Return our bounds over the peer's at the bars, by whose scores each was given."""
    return {
        pair: {
            f"{ours} at {point.epsilon:g}": {
                "ratio": found.ratio((mine, ours), (its, theirs)),
                "standard_error": found.ratio_error((mine, ours), (its, theirs)),
                "audits": point.repeats,
            }
            for point, found in _bar_points(results)
            for ours, theirs in PEERS_BOUND.items()
        }
        for pair, (mine, its) in PAIRS.items()
    }


def _with_error(each: dict[str, float]) -> str:
    if math.isnan(each["ratio"]):
        return "–"
    return f"{each['ratio']:.3f} ± {each['standard_error']:.3f}"


def _against_the_bar(each: dict[str, float]) -> str:
    distance = each["ratio"] - BAR
    near = (
        ", by less than two standard errors" if abs(distance) < 2 * each["standard_error"] else ""
    )
    return f"{_with_error(each)}, {'not below' if distance >= 0 else 'below'} {BAR:g}{near}"


def _cell(found: Found, scores: str, bound: str) -> str:
    if (scores, bound) not in found.bounds:
        return "–"
    return f"{found.mean(scores, bound):.2f} ± {found.standard_error(scores, bound):.2f}"


def _ratio(found: Found, ours: str, theirs: str) -> str:
    values = [found.ratio((mine, ours), (its, theirs)) for mine, its in PAIRS.values()]
    return (
        "–"
        if all(map(math.isnan, values))
        else ", ".join("–" if math.isnan(value) else f"{value:.2f}" for value in values)
    )


def as_json(
    results: list[tuple[Point, Found]], own: dict[int, list[float]], peer: str
) -> dict[str, object]:
    rows = []
    for point, found in results:
        rows.append(
            {
                "sweep": point.sweep,
                "epsilon": point.epsilon,
                "canaries": point.m,
                "dimension": point.d,
                "repeats": point.repeats,
                "true_epsilon": gaussian_epsilon(1 / printed_noise(point.epsilon, DELTA), DELTA),
                "median_seconds": float(np.median(found.seconds)),
                "bounds": [
                    {
                        "scores": scores,
                        "bound": bound,
                        "mean": found.mean(scores, bound),
                        "standard_error": found.standard_error(scores, bound),
                    }
                    for scores, bound in found.bounds
                ],
            }
        )
    return {
        "peer": peer,
        "delta": DELTA,
        "confidence": 1 - LEVEL,
        "points": rows,
        "ratios_at_the_bars": ratios_at_the_bars(results),
        "ratios_of_the_best": ratios_of_the_best(results),
        "independent_gdp_one_hot": {str(e): values for e, values in own.items()},
    }


if __name__ == "__main__":
    main()
