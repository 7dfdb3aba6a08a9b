# SPDX-License-Identifier: Apache-2.0
"""What each benchmark was asked to reach, what it reached, and whether that is enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import federated_bars
from .results import Result, Results, measured, named, percent, plus_minus, span
from .verdicts import REPORTED, Bar

HALVES, COVERED = 1.5, (0.85, 0.95)
PEER, REFITS, NEW_CELL = 3.0, 15.0, 1e-3
LINEAR, EXTENDED, LOGISTIC, VALUE_TIME, VALUE_MINUTE = 1e-8, 1e-12, 1e-6, 2.0, 60.0
STANDARD_ERRORS = 2.0
QUARTER = 1.25
TENTH = 1.1
NORMAL_SCORES = {8: 6.5, 16: 13.0}
"""What the bound from normal scores must reach, by nominal ε."""
SLOPE, MANY_ROWS, MEMORY, FIT, TABLE, TWO = 1.1, 10_000_000, 2e9, 10.0, 3.0, 1.5
FRONTIER_LOSS, FRONTIER_PEER = {"record": 0.003, "answer": 0.001}, 0.001
REPETITIONS, ASKED_OF_ANY_MODEL = 200, 22
"""Independent repetitions of a whole curve, at least, and rows of the table of any-model."""
JAX_F_DP = {8: 2.88, 16: 5.30}
"""jax_privacy's f-DP bound as the benchmark's description quotes it, by nominal ε."""


def _whatif(result: Result) -> list[Bar]:
    rows = result["rows"]
    worst = max(rows, key=lambda row: row["ratio"])
    cells = sum(row["covered_cells"] for row in rows)
    overall = sum(row["coverage"] * row["covered_cells"] for row in rows) / cells
    low, high = COVERED
    outside = [row for row in rows if not low <= row["coverage"] <= high]
    clearly = [
        row
        for row in outside
        if max(low - row["coverage"], row["coverage"] - high)
        > STANDARD_ERRORS * row["coverage_standard_error"]
    ]
    range_ = f"{percent(low)} to {percent(high)}"
    each = span((100 * row["coverage"] for row in rows), ".1f")
    return [
        Bar.of(
            f"`exact` within {HALVES:g} times the distance between two halves of the retrainings, at every size",
            f"at worst {plus_minus(worst['ratio'], worst['ratio_standard_error'])}",
            worst["ratio"] <= HALVES,
        ),
        Bar.of(
            f"interval covers {range_}, all cells together",
            percent(overall, 1),
            low <= overall <= high,
        ),
        Bar.of(
            f"interval covers {range_}, every group size by itself",
            f"{each} %; {len(outside) or 'none'} of {len(rows)} outside, {len(clearly) or 'none'} by more than two standard errors",
            not outside,
        ),
    ]


def _mnist(result: Result) -> list[Bar]:
    errors = [
        f"{word} {span((row['error'][key] for row in result['rows']), '.4f')}"
        for key, word in (
            ("influence", "exactly"),
            ("by CG", "by CG"),
            ("stochastic", "stochastically"),
        )
    ]
    asked = "first order by CG and by stochastic estimation too, with their errors"
    return [*_whatif(result), Bar(asked, "; ".join(errors), REPORTED)]


def _speed(result: Result) -> list[Bar]:
    found = result["summary"]
    peer, new = found["fastest_peer"], found["new_cell_seconds"]
    training = found["fastest_peer_with_training"]
    refits, draws = (
        found["refits_over_exact"]["ratio"],
        found["refits_of_one_draw_over_exact"],
    )
    timed = f"{found['refits_over_exact']['n_refits']} of the {result['cells']} timed"
    warm = found["warm_refits_over_exact"]
    turns = [cell["median"] for cell in _new_cells(result, "epsilens, point table")]
    both = [cell["median"] for cell in _new_cells(result, "epsilens, point table, two cores")]
    return [
        Bar.of(
            f"point table ≥ {PEER:g} times as fast as the fastest peer, Hessian included, training left out for both",
            f"{measured(peer['ratio'])} ({peer['name']})",
            peer["ratio"]["value"] >= PEER,
        ),
        Bar.of(
            f"point table ≥ {PEER:g} times as fast as the fastest peer, training counted for both, if “end to end” is read so",
            measured(training),
            training["value"] >= PEER,
        ),
        Bar.of(
            f"{result['cells']} `exact` cells ≥ {REFITS:g} times as fast as as many refits, each from nothing",
            f"{measured(draws)} against refits on one draw, {measured(refits)} against refits of the expectation; {timed}",
            min(refits["value"], draws["value"]) >= REFITS,
        ),
        Bar.of(
            f"{result['cells']} `exact` cells ≥ {REFITS:g} times as fast as as many refits, each begun at its neighbour's "
            "result, if “refit” is read so",
            f"{measured(warm)}; {timed}",
            warm["value"] >= REFITS,
        ),
        Bar.of(
            "a new (group, ε) after that in less than 1 ms",
            f"{span((1e6 * median for median in turns), '.0f')} µs (median calls of {len(turns)} turns on one core; the "
            f"slowest call {1e3 * new['largest']:.1f} ms); on two cores in that run {span((1e3 * m for m in both), '.1f')} ms",
            max(turns) < NEW_CELL,
        ),
    ]


def _new_cells(result: Result, name: str) -> list[Result]:
    """Return what a further cell took, turn by turn."""
    return [note["new_cell_seconds"] for note in named(result["rows"], name=name)["notes"]]


def _loo(result: Result) -> list[Bar]:
    linear = [r for r in result["accuracy"] if r.get("exact_against_extended_precision")]
    logistic = [r for r in result["accuracy"] if not r.get("exact_against_extended_precision")]
    refits = max(row["exact"]["largest_relative_error"] for row in linear)
    extended = max(row["exact_against_extended_precision"] for row in linear)
    curved = max(row["exact"]["largest_relative_error"] for row in logistic)
    rows = result["speed"]["rows"]
    ratios = {
        words: named(rows, name=name)["ratio_to_fastest_peer"]
        for words, name in (
            ("linear `exact`", "epsilens, linear, exact"),
            ("logistic second order", "epsilens, logistic, second order"),
        )
    }
    seconds = min(map(min, named(rows, name="epsilens, logistic, exact")["wall_seconds"]))
    count = f"{result['speed']['n_train']:,}"
    return [
        Bar.of(
            f"linear: ≤ {LINEAR:.0e} of the largest influence, against refits in double precision",
            f"{refits:.0e}",
            refits <= LINEAR,
        ),
        Bar.of(
            f"linear: ≤ {EXTENDED:.0e} against extended precision",
            f"{extended:.0e}",
            extended <= EXTENDED,
        ),
        Bar.of(f"logistic `exact`: ≤ {LOGISTIC:.0e} relative", f"{curved:.0e}", curved <= LOGISTIC),
        Bar.of(
            f"all {count} points in ≤ {VALUE_TIME:g} times the time of the fastest peer's first order",
            "; ".join(f"{words} {measured(ratio)}" for words, ratio in ratios.items()),
            all(ratio["value"] <= VALUE_TIME for ratio in ratios.values()),
        ),
        Bar.of(
            f"logistic `exact` for all {count} within a minute",
            f"{seconds:.0f} s on two cores",
            seconds <= VALUE_MINUTE,
        ),
    ]


def _batches(result: Result) -> list[Bar]:
    scores = [abs(row["z"]) for row in result["rows"]]
    inside = sum(score <= STANDARD_ERRORS for score in scores) / len(scores)
    return [
        Bar.of(
            "measured ratios within their error of D_b(k): 95 % of them within two standard errors",
            f"{percent(inside)} of {len(scores)}; the farthest {max(scores):.1f} standard errors",
            inside >= 0.95,
        )
    ]


def bound_means(point: Result) -> dict[tuple[str, str], float]:
    """Return the mean bounds of a point by whose scores and which bound."""
    return {(row["scores"], row["bound"]): row["mean"] for row in point["bounds"]}


def _one_run(results: Results) -> list[Bar]:
    result, coverage = results["one-run"], results["audit-coverage"]
    found = []
    for ours, theirs, words in (
        ("pure", "jax one-run", "pure bound"),
        ("approximate", "jax one-run", "(ε, δ) bound"),
        ("f-dp", "jax f-DP", "Gaussian family"),
    ):
        ratios = [
            bound_means(point)[scores, ours] / bound_means(point)[scores, theirs]
            for point in result["points"]
            for scores in ("P3", "ours")
        ]
        found.append(
            Bar.of(
                f"{words} ≥ jax_privacy's, same scores, at every point",
                f"{span(ratios)} times over {len(result['points'])} points and both scores",
                min(ratios) >= 1.0,
            )
        )
    found.append(_pure_quarter(result))
    for ours, words in (("approximate", "(ε, δ) bound"), ("f-dp", "Gaussian family")):
        pairs = {
            (scores, at): result["ratios_at_the_bars"][f"same scores on both sides, {who}"][
                f"{ours} at {at}"
            ]
            for who, scores in (("P3's", "P3's scores"), ("ours", "our scores"))
            for at in JAX_F_DP
        }
        found.append(
            Bar.of(
                f"{words}: a quarter more at ε = 8 and 16, same scores",
                "; ".join(
                    f"{scores}, ε = {at}: {plus_minus(pair['ratio'], pair['standard_error'], 3)}"
                    for (scores, at), pair in pairs.items()
                ),
                all(pair["ratio"] >= QUARTER for pair in pairs.values()),
            )
        )
    ours_f_dp = {
        point["epsilon"]: bound_means(point)["P3", "f-dp"]
        for point in result["points"]
        if point["sweep"] == "epsilon" and point["epsilon"] in JAX_F_DP
    }
    found.append(
        Bar.of(
            "Gaussian family ≥ jax_privacy's f-DP as first quoted: "
            + ", ".join(f"{value:.2f} at ε = {at}" for at, value in JAX_F_DP.items()),
            ", ".join(f"{value:.2f} at ε = {at}" for at, value in ours_f_dp.items()),
            all(ours_f_dp[at] >= value for at, value in JAX_F_DP.items()),
        )
    )
    best = result["ratios_of_the_best"]
    found.append(
        Bar.of(
            "a tenth more than jax_privacy's best setting, same scores, at ε = 8 and 16",
            "; ".join(
                f"{row['family']}, {row['scores']}, ε = {row['epsilon']:g}: "
                f"{plus_minus(row['ratio'], row['standard_error'], 3)}"
                for row in best
            ),
            all(row["ratio"] >= TENTH for row in best),
        )
    )
    normal = {
        (scores, point["epsilon"]): bound_means(point)[scores, "gaussian-scores"]
        for point in result["points"]
        if point["sweep"] == "epsilon" and point["epsilon"] in NORMAL_SCORES
        for scores in ("P3", "ours")
    }
    found.append(
        Bar.of(
            "normal scores: "
            + ", ".join(f"≥ {value:g} at ε = {at}" for at, value in NORMAL_SCORES.items()),
            ", ".join(f"{value:.2f} at ε = {at:g} ({who})" for (who, at), value in normal.items()),
            all(value >= NORMAL_SCORES[at] for (_, at), value in normal.items()),
        )
    )
    rows = [row for row in coverage["rows"] if row["claims_to_hold"]]
    worst = max(rows, key=lambda row: row["rate"])
    found.append(
        Bar.of(
            "wrong at most 5 % + 2 standard errors of the time at ε = 0, 1, 3, 8, where valid",
            f"{len(rows)} cases; the worst {percent(worst['rate'], 1)} ± {percent(worst['standard_error'], 1)}",
            all(row["within_two_standard_errors"] for row in rows),
        )
    )
    return found


def _pure_quarter(result: Result) -> Bar:
    """Judge the pure bound at the two ε of the bar; the error is as if the two means were independent."""
    ratios, shown = [], []
    for scores, words in (("P3", "P3's scores"), ("ours", "our scores")):
        for at in JAX_F_DP:
            point = named(result["points"], sweep="epsilon", epsilon=at)
            ours = named(point["bounds"], scores=scores, bound="pure")
            theirs = named(point["bounds"], scores=scores, bound="jax one-run")
            ratio = ours["mean"] / theirs["mean"]
            share = sum((row["standard_error"] / row["mean"]) ** 2 for row in (ours, theirs)) ** 0.5
            ratios.append(ratio)
            shown.append(f"{words}, ε = {at}: {plus_minus(ratio, ratio * share, 3)}")
    return Bar.of(
        "pure bound: a quarter more at ε = 8 and 16, same scores",
        "; ".join(shown),
        min(ratios) >= QUARTER,
    )


def _ridge(result: Result) -> list[Bar]:
    audits = result["audits"]
    valid = sum(audit["valid"] for audit in audits)
    return [
        Bar.of(
            "valid by audit at every ρ",
            f"{valid} of {len(audits)} audits, ρ from {span((a['rho'] for a in audits), 'g')}",
            valid == len(audits),
        ),
        Bar(
            "the comparison reported as it is",
            f"{len(result['baselines'])} tables, {len({c['method'] for c in result['cells']})} methods",
            REPORTED,
        ),
    ]


def fastest_opacus(result: Result, task: str) -> Result:
    """Return the row of the fastest way to run Opacus on a task."""
    rows = [r for r in result["rows"] if r["task"] == task and r["who"].startswith("Opacus")]
    return min(rows, key=lambda row: row["times_ours"])


def _lira(results: Results) -> list[Bar]:
    speed, found = results["dp-sgd-speed"], []
    for task in ("logistic", "softmax", "64-128-10 network"):
        row, bar = fastest_opacus(speed, task), speed["bars"][task]
        found.append(
            Bar.of(
                f"{task}: ≥ {bar:g} times as fast a model as Opacus one at a time",
                f"{plus_minus(row['times_ours'], row['times_ours_standard_error'], 1)} ({row['who']})",
                row["times_ours"] >= bar,
            )
        )
    rows = results["lira"]["epsilon"]
    found.append(
        Bar(
            "ASR curve with its floor and bounds",
            f"{len(rows)} points, {results['lira']['models']:,} shadow models each",
            REPORTED,
        )
    )
    return found


def gains(result: Result, measure: str) -> dict[str, int]:
    """Count the verdicts on masks by one measure of exposure."""
    counts: dict[str, int] = {}
    for row in result["rows"]:
        if row["mask"] != "none":
            word = row[f"{measure}_gain"]
            counts[word] = counts.get(word, 0) + 1
    return counts


def _masking(result: Result) -> list[Bar]:
    found = []
    for measure, words in (
        ("asr_max", "ASR^M"),
        ("balanced_accuracy", "balanced attack accuracy"),
    ):
        counts = gains(result, measure)
        found.append(
            Bar(
                f"ε at equal {words}, with its interval; does the gain survive the noise?",
                f"of {sum(counts.values())} pairs of mask and ε, clearly larger {counts.get('larger', 0)}, "
                f"clearly smaller {counts.get('smaller', 0)}, within the noise {counts.get('within the noise', 0)}",
                REPORTED,
            )
        )
    return found


def _scale(result: Result) -> list[Bar]:
    rows, slopes = result["rows"], result["slopes"]
    last, best = rows[-1], [row["one_against_two"]["best"] for row in rows]
    found = [
        Bar.of(
            f"log-log slope in n ≤ {SLOPE:g}",
            ", ".join(f"{part} {measured(slope)}" for part, slope in slopes.items()),
            all(slope["value"] <= SLOPE for slope in slopes.values()),
        ),
        Bar.of(
            "peak memory < 2 GB at ten million rows",
            f"{last['peak_bytes'] / 1e9:.2f} GB at {last['n']:,} rows",
            last["n"] >= MANY_ROWS and last["peak_bytes"] < MEMORY,
        ),
    ]
    for part, most in (("fit", FIT), ("point table", TABLE)):
        for clock, told in (("cpu_seconds", "by processor time"), ("seconds", "by the clock")):
            # Best over best: the best of the ratios would reward a bare pass that had bad luck.
            ratios = [row[clock][part] / row[clock]["bare pass"] for row in rows]
            found.append(
                Bar.of(
                    f"{part} ≤ {most:g} times one bare pass, {told}",
                    ", ".join(
                        f"{value:.1f} at {row['n']:,}"
                        for value, row in zip(ratios, rows, strict=True)
                    ),
                    max(ratios) <= most,
                )
            )
    shown = ", ".join(
        f"{both['best']:.2f} at {row['n']:,} ({both['part']})"
        for row in rows
        for both in [row["one_against_two"]]
    )
    turns = span((row["one_against_two"]["turns"] for row in rows), "d")
    asked = f"two processes ≥ {TWO:g} times one, best of {turns} alternating runs"
    return [*found, Bar.of(asked, shown, min(best) >= TWO)]


def _page(result: Result) -> list[Bar]:
    most, rows, found = result["bars"], result["rows"], []
    count = f"{result['rows_of_the_table']:,}"
    served = dict.fromkeys(row["name"] for row in rows if row["name"].startswith("served page"))
    for begins, words in (
        ("report", "reports"),
        *((name, f"{name}, {count} rows") for name in served),
    ):
        own = [row for row in rows if row["name"].startswith(begins)]
        drag, keys = (max(row[way]["p95_ms"] for row in own) for way in ("drag", "keys"))
        found.append(
            Bar.of(
                f"{words}: input to paint < {most['p95_ms']:g} ms at the 95th percentile",
                f"at worst {drag:.0f} ms dragged by the mouse, {keys:.0f} ms by keys",
                max(drag, keys) < most["p95_ms"],
            )
        )
    sizes = [row["bytes"] / 1e6 for row in rows if "bytes" in row]
    largest_report = f"{span(sizes)} MB, {len(sizes)} reports"
    is_small = max(sizes) < most["bytes"] / 1e6
    return [*found, Bar.of(f"report < {most['bytes'] / 1e6:g} MB", largest_report, is_small)]


GOOD_CELL = 0.8
"""Share of real runs in the interval from which on a cell counts as good."""


def _many_tables(result: Result) -> list[Bar]:
    found = result["summary"]
    coverage, error = found["coverage"], found["coverage_standard_error"]
    kept, kept_error = found["limit_kept"], found["limit_standard_error"]
    good = [row for row in result["rows"] if row["covered"] >= GOOD_CELL]
    unmarked = sum(row["trusted"] for row in good) / len(good)
    return [
        Bar.of("at least 300 tables", f"{found['tables']}", found["tables"] >= 300),
        Bar.of(
            "a grid of nine ε moves no trusted number by more than 5 % of its interval's width",
            f"at most {percent(found['largest_shift'], 1)}",
            found["largest_shift"] <= 0.05,
        ),
        Bar.of(
            "no trusted point outside its interval",
            f"{found['points_outside']}",
            found["points_outside"] == 0,
        ),
        Bar.of(
            "trusted intervals cover 89 % to 91 %",
            f"{percent(coverage, 1)} ± {percent(error, 1)}",
            0.89 <= coverage <= 0.91,
        ),
        Bar.of(
            "each table 85 % to 95 %",
            f"{percent(found['lowest_table'], 1)} to {percent(found['highest_table'], 1)}",
            found["lowest_table"] >= 0.85 and found["highest_table"] <= 0.95,
        ),
        Bar.of(
            "no trusted cell below 75 % beyond chance",
            f"lowest {percent(found['lowest_cell'], 1)}",
            found["lowest_cell"] >= found["lowest_cell_by_chance"],
        ),
        Bar.of(
            "at least 95 % of the bad cells are marked",
            "no bad cell" if found["bad_marked"] is None else percent(found["bad_marked"], 1),
            found["bad_marked"] is None or found["bad_marked"] >= 0.95,
        ),
        Bar.of(
            "at least 85 % of the good cells of `exact` are not marked",
            percent(found["good_unmarked"], 1),
            found["good_unmarked"] >= 0.85,
        ),
        Bar.of(
            "at least 85 % of the good cells of all methods are not marked",
            f"{percent(unmarked, 1)} of {len(good)}; `newton` and `influence` mark too many",
            unmarked >= 0.85,
        ),
        Bar.of(
            "95 % of the runs keep the limit that ε was chosen for",
            f"{percent(kept, 1)} ± {percent(kept_error, 1)}",
            kept >= 0.95 - 2 * kept_error,
        ),
    ]


def _frontier(result: Result) -> list[Bar]:
    agreement = {key: one["loss"] for key, one in result["agreement"].items()}
    found, each = agreement["all"], {key: one for key, one in agreement.items() if key != "all"}
    low, high = COVERED
    n_asked = len(result["cells"])
    at_one = {
        cell["protects"]: cell["loss"]
        for cell in result["cells"]
        if (cell["table"], cell["mechanism"], cell["epsilon"]) == ("adult", "noisy-descent", 1.0)
    }
    shrunk = result["tables"]["adult"]["shrunk_loss"]
    own = []
    for claim, most in FRONTIER_LOSS.items():
        loss = at_one[claim].get("real", at_one[claim]["preview"])
        noise = loss - shrunk
        own.append(
            Bar.of(
                f"Adult, ε = 1, {claim} protected: noisy descent adds at most {most:g} to the loss",
                f"{loss:+.4f}; {noise:+.4f} over a model without noise on the same shrunk rows",
                max(loss, noise) <= most,
            )
        )
    beside = []
    for ours, words in (("ours", "the same ε"), ("ours_at_equal_advantage", "the same advantage")):
        for bound, more in (("default", ""), ("narrow", ", rows within a narrower bound")):
            above = [row[ours] - row["peer"] for row in result["peer"] if row["rows"] == bound]
            asked = f"noisy descent at most {FRONTIER_PEER:g} above Opacus at {words}{more}"
            if above:
                kept = sum(one <= FRONTIER_PEER for one in above)
                reached = f"{kept} of {len(above)} cells; at worst {max(above):+.4f}"
                beside.append(Bar.of(asked, reached, kept == len(above)))
    return [
        Bar.of(
            "at least 90 % of the previews within two combined standard errors of 40 real trainings",
            f"{percent(found['within_two'])} of {found['cells']} cells",
            found["within_two"] >= 0.9,
        ),
        Bar.of("no preview beyond four", f"at worst {found['worst']:.1f}", found["worst"] < 4),
        Bar.of(
            f"intervals of a preview cover {percent(low)} to {percent(high)} of the real trainings",
            f"{percent(found['coverage'], 1)} ± {percent(found['coverage_standard_error'], 1)}",
            low <= found["coverage"] <= high,
        ),
        Bar.of(
            "at least 90 % of the previews within two, every table by itself",
            ", ".join(f"{key} {percent(one['within_two'])}" for key, one in each.items()),
            min(one["within_two"] for one in each.values()) >= 0.9,
        ),
        Bar.of(
            "real trainings beside every preview of a fast mechanism",
            f"{found['cells']} of {n_asked} cells",
            found["cells"] == n_asked,
        ),
        *own,
        *beside,
    ]


def _any_model(result: Result) -> list[Bar]:
    rows, tables = result["rows"], result["agreement"].values()
    worst = max(rows, key=lambda row: row["ratio"])
    kept = sum(row["ratio"] <= 1 for row in rows)
    fits = max(row["n_fits"] for row in rows)
    low, high = COVERED
    within = sum(one["within_two"] for one in tables) / len(tables)
    return [
        Bar.of(
            "error of the mean curve at most the distance of two halves of a naive retraining",
            f"{kept} of {len(rows)} models and tables; at worst "
            f"{plus_minus(worst['ratio'], worst['ratio_standard_error'])} times",
            kept == len(rows),
        ),
        Bar.of(
            "at most an eighth of its trainings",
            f"at most {fits} against {rows[0]['naive_fits']}",
            fits <= result["most_fits"],
        ),
        *(
            Bar.of(
                f"90 % interval covers {percent(low)} to {percent(high)} of fresh runs: {name}",
                f"{percent(one['coverage'], 1)} ± {percent(one['coverage_standard_error'], 1)} "
                f"over {one['repetitions']} repetitions",
                low <= one["coverage"] <= high and one["repetitions"] >= REPETITIONS,
            )
            for name, one in result["coverage"].items()
        ),
        Bar.of(
            "within two standard errors of `exact` for logistic regression, in 90 % of the cells",
            f"{percent(within, 1)} of the cells of {len(tables)} tables; at worst "
            f"{max(one['worst'] for one in tables):.1f}",
            within >= 0.9,
        ),
        Bar.of(
            "five models on Adult, PubCov, WISDM and a generated table; a protected feature; 12,000 records",
            f"{len(rows)} of {ASKED_OF_ANY_MODEL}",
            len(rows) == ASKED_OF_ANY_MODEL,
        ),
    ]


Judge = Callable[[Results], list[Bar]]


def _own(name: str, judge: Callable[[Any], list[Bar]]) -> Judge:
    return lambda results: judge(results[name])


def _recipes(result: Result) -> list[Bar]:
    known = named(result["rows"], recipe="audit_diffprivlib.py")
    return [
        Bar.of(
            "a published mechanism whose stated ε is known to be wrong is caught",
            f"diffprivlib's linear regression: ε is at least {known['mean_bound']:.2f} where "
            f"{known['claim']:g} is claimed, in {known['broken']} of {known['runs']} audits",
            known["broken"] == known["runs"],
        )
    ]


JUDGES: dict[str, tuple[str, str, Judge]] = {
    "whatif-adult": ("P1 Table III, Fig. 1", "p1", _own("whatif-adult", _whatif)),
    "whatif-flc": ("P1 Table III, right", "p1", _own("whatif-flc", _whatif)),
    "whatif-pubcov": ("P1 Table III, Fig. 2", "p1", _own("whatif-pubcov", _whatif)),
    "whatif-features": ("P1 Fig. 2", "p1", _own("whatif-features", _whatif)),
    "whatif-mnist": ("P1 Tables I and III", "p1", _own("whatif-mnist", _mnist)),
    "whatif-speed": ("P1 Table IV", "p1", _own("whatif-speed", _speed)),
    "whatif-many-tables": (
        "several hundred public tables",
        "",
        _own("whatif-many-tables", _many_tables),
    ),
    "whatif-scale": ("tables that do not fit into memory", "", _own("whatif-scale", _scale)),
    "loo": ("P4 Table 1", "p4", _own("loo", _loo)),
    "batch-correction": ("P4 Fig. 3", "p4", _own("batch-correction", _batches)),
    "federated": ("P2 Tables 2 and 3, Fig. 2", "p2", _own("federated", federated_bars.change)),
    "federated-remove": ("P2 Eq. 27", "p2", _own("federated-remove", federated_bars.removal)),
    "one-run": ("P3 Q2.1 to Q2.3", "p3", _one_run),
    "audit-recipes": ("Other libraries", "p3", _own("audit-recipes", _recipes)),
    "ridge": ("P3 part 1", "p3", _own("ridge", _ridge)),
    "lira": ("P5 Fig. 5", "p5", _lira),
    "masking": ("P5 Table II, Figs. 5 to 9", "p5", _own("masking", _masking)),
    "page": ("the slider in a browser", "", _own("page", _page)),
    "frontier": ("mechanisms at equal advantage", "", _own("frontier", _frontier)),
    "any-model": ("models that are trained again", "", _own("any-model", _any_model)),
}
"""Every benchmark that has a bar: what of which paper it is about, its page, and its judge."""
