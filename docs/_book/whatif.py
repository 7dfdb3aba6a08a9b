# SPDX-License-Identifier: Apache-2.0
"""P1: what ε costs. Its four tables and two figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

from scipy.stats import spearmanr

from . import ages
from .results import Result, Results, measured, named, plus_minus, quoted, span, table

_HEAD = (
    "group",
    "error, P1 prints",
    "its formula here",
    "as P1 counts",
    "`exact`",
    "two halves apart",
    "ρ, P1 prints",
    "ρ of its formula here",
    "ρ of `exact`",
)


def _ranks(row: Result, way: str) -> str:
    """Return Spearman's ρ over ε between an estimate and the mean of the retrainings."""
    return f"{spearmanr(row['curve'][way], row['curve']['retrained']).statistic:.3f}"


def _table_3(
    rows: Sequence[Result], errors: Mapping[str, float], ranks: Mapping[str, float]
) -> str:
    return table(
        _HEAD,
        (
            (
                row["group"],
                f"{errors[row['group']]:.4f}" if row["group"] in errors else "–",
                f"{row['error']['paper']:.6f}",
                f"{row['error_as_p1']:.6f}",
                f"{row['error']['exact']:.6f}",
                f"{row['halves']:.6f}",
                f"{ranks[row['group']]:.3f}" if row["group"] in ranks else "–",
                _ranks(row, "paper"),
                _ranks(row, "exact"),
            )
            for row in rows
        ),
    )


def _block(result: Result, name: str) -> list[Result]:
    return [row for row in result["rows"] if row["block"] == name]


def _table_2(result: Result, printed: Mapping[str, Mapping[str, int]]) -> str:
    names = {"adult": "Adult", "acs_pubcov": "PubCov", "mnist": "MNIST, four digits"}
    rows = []
    for data, paper in printed.items():
        ours = named(result["rows"], data=data)
        rows.append(
            (
                names[data],
                f"{paper['n']:,}",
                f"{ours['n_train']:,} + {ours['n_test']:,}",
                f"{paper['d']} / {paper['coded']}",
                f"{ours['n_parameters']:,}",
                str(paper["classes"]),
                *(
                    f"{paper[what]} / {100 * ours[what]:.1f}"
                    for what in ("precision", "recall", "accuracy")
                ),
            )
        )
    return table(
        (
            "data",
            "records, P1",
            "to train + to test on here",
            "columns before / after coding, P1",
            "parameters here",
            "classes",
            "precision %, P1 / here",
            "recall %, P1 / here",
            "accuracy %, P1 / here",
        ),
        rows,
    )


def _gap(result: Result, printed: Mapping[str, Mapping[str, int]], data: str) -> str:
    ours = named(result["rows"], data=data)
    scores = ("precision", "recall", "accuracy")
    return f"{max(abs(100 * ours[what] - printed[data][what]) for what in scores):.1f}"


def _printed_3(p1: ModuleType, data: str) -> str:
    """Return both columns of P1 Table III for a data set, as printed."""
    columns = [
        printed(data, case)
        for case in ("labels", "corrected")
        for printed in (p1.table_3, p1.table_3_ranks)
    ]
    return table(
        ("group", "labels: error", "ρ", "with correction: error", "ρ"),
        (
            (size, *(f"{column[size]:.{3 + (k + 1) % 2}f}" for k, column in enumerate(columns)))
            for size in p1.SIZES
        ),
    )


def _figure_2(
    labels: Result, columns: Result, printed: Mapping[str, float], ranks: Mapping[str, float]
) -> str:
    rows = {row["block"]: row for row in columns["rows"]}
    rows["labels"] = named(_block(labels, "labels"), group="75.00%")
    words = {"features": "two features", "labels": "the label", "both": "both"}
    return table(
        (
            "randomised",
            "error, P1 prints",
            "its formula here",
            "first order",
            "`exact`",
            "two halves apart",
            "ρ, P1 prints",
            "ρ of its formula here",
            "ρ of `exact`",
        ),
        (
            (
                words[name],
                f"{printed[name]:.4f}",
                *(f"{rows[name]['error'][way]:.6f}" for way in ("paper", "influence", "exact")),
                f"{rows[name]['halves']:.6f}",
                f"{ranks[name]:.3f}",
                _ranks(rows[name], "paper"),
                _ranks(rows[name], "exact"),
            )
            for name in words
        ),
    )


def best_seconds(row: Result, clock: str = "cpu_seconds") -> float:
    """Return the best of all turns."""
    return min(map(min, row[clock]))


def _table_4(
    result: Result, printed: Mapping[str, tuple[float, float | None]], n_epsilon: int
) -> str:
    rows, cells, found = result["rows"], result["cells"], result["summary"]
    exact = best_seconds(named(rows, name="epsilens, exact"))
    ours = best_seconds(named(rows, name="epsilens, point table"))
    draws = named(rows, name="scikit-learn, refits of one draw")
    one = best_seconds(draws) / found["refits_over_exact"]["n_refits"]
    training = best_seconds(named(rows, name="scikit-learn, training"))
    cell = found["new_cell_seconds"]["median"]
    here = {
        "initial training": ("training", *(f"{training:.2f}" for _ in range(3))),
        "IHVP": ("H⁻¹η", f"{ours:.3f}, all cells included", "–", "–"),
        "per epsilon": ("one (group, ε)", f"{cell:.6f}", f"{exact / cells:.4f}", f"{one:.3f}"),
        "per group": (
            f"one group, {n_epsilon} ε",
            f"{n_epsilon * cell:.4f}",
            f"{n_epsilon * exact / cells:.2f}",
            f"{n_epsilon * one:.1f}",
        ),
        "for 10 groups": (
            f"all {cells}, training included",
            f"{training + ours:.2f}",
            f"{training + exact:.1f}",
            f"{training + cells * one:.0f}",
        ),
    }
    return table(
        (
            "seconds",
            "formula, P1",
            "retraining, P1",
            "first order here",
            "`exact` here",
            "retraining here",
        ),
        (
            (words, *("–" if value is None else f"{value:g}" for value in printed[row]), *values)
            for row, (words, *values) in here.items()
        ),
    )


def _table_1(result: Result) -> str:
    printed = {
        "cholesky": ("exact", "np² + p³"),
        "cg": ("conjugate gradient", "np"),
        "stochastic": ("stochastic estimation", "np + rtp"),
    }
    slopes = {(row["solver"], row["along"]): row for row in result["slopes"]}
    again = ("training again, for every group and ε", "Enp", "–", "–", "–", "–")
    return table(
        (
            "H⁻¹η",
            "P1 prints: cost of order",
            "slope in p here",
            "last doubling",
            "slope in n here",
            "last doubling",
        ),
        [
            (
                words,
                order,
                slopes[solver, "p"]["slope_text"],
                f"{slopes[solver, 'p']['slope_last_doubling']:.2f}",
                slopes[solver, "n"]["slope_text"],
                f"{slopes[solver, 'n']['slope_last_doubling']:.2f}",
            )
            for solver, (words, order) in printed.items()
        ]
        + [again],
    )


def _mnist(result: Result) -> str:
    return table(
        ("group", "first order, Cholesky", "by CG", "stochastic", "`exact`", "two halves apart"),
        (
            (
                row["group"],
                *(
                    f"{row['error'][way]:.6f}"
                    for way in ("influence", "by CG", "stochastic", "exact")
                ),
                f"{row['halves']:.6f}",
            )
            for row in result["rows"]
        ),
    )


def facts(results: Results) -> dict[str, str]:
    """Return what the page of P1 shows."""
    p1 = quoted("p1")
    adult, corrected = results["whatif-adult"], results["whatif-flc"]
    pubcov, columns, mnist = (
        results[name] for name in ("whatif-pubcov", "whatif-features", "whatif-mnist")
    )

    def tables(result: Result, block: str, data: str, case: str) -> str:
        return _table_3(_block(result, block), p1.table_3(data, case), p1.table_3_ranks(data, case))

    last = named(_block(adult, "everybody"), group="30.00%")
    printed = p1.table_3("adult", "labels")["30.00%"]
    corrected_last = named(_block(corrected, "everybody"), group="30.00%")
    truth = corrected_last["curve"]["retrained"]
    large = named(_block(pubcov, "labels"), group="30.00%")
    both = named(columns["rows"], block="both")
    speed = results["whatif-speed"]
    return {
        "adult_men": tables(adult, "men", "adult", "labels"),
        "adult_everybody": tables(adult, "everybody", "adult", "labels"),
        "adult_corrected": tables(corrected, "everybody", "adult", "corrected"),
        "men_corrected": tables(corrected, "men", "adult", "corrected"),
        "pubcov_labels": tables(pubcov, "labels", "acs_pubcov", "labels"),
        "pubcov_corrected": tables(pubcov, "labels, corrected", "acs_pubcov", "corrected"),
        "mnist_labels": tables(mnist, "everybody", "mnist", "labels"),
        "mnist_solvers": _mnist(mnist),
        "figure_2": _figure_2(pubcov, columns, p1.FIGURE_2, p1.FIGURE_2_RANKS),
        "table_2": _table_2(results["whatif-data"], p1.TABLE_2),
        "adult_gap": _gap(results["whatif-data"], p1.TABLE_2, "adult"),
        "mnist_gap": _gap(results["whatif-data"], p1.TABLE_2, "mnist"),
        "mnist_printed_all": _printed_3(p1, "mnist"),
        "deep": _deep(results["whatif-deep"]),
        "deep_n": f"{results['whatif-deep']['n_train']:,}",
        "deep_fitted": str(len(results["whatif-deep"]["fitted"])),
        "table_1": _table_1(results["whatif-cost-growth"]),
        "table_4": _table_4(speed, p1.TABLE_4, len(last["curve"]["epsilon"])),
        "table_4_ratio": f"{p1.TABLE_4['for 10 groups'][1] / p1.TABLE_4['for 10 groups'][0]:.0f}",
        "speed_command": ages.command("whatif-speed", {"turns": speed["turns"]}),
        "speed_timed": str(speed["summary"]["refits_over_exact"]["n_refits"]),
        "growth_command": ages.command(
            "whatif-cost-growth", {"repeats": results["whatif-cost-growth"]["repeats"]}
        ),
        "adult_printed_last": f"{printed:.4f}",
        "adult_formula_last": f"{last['error']['paper']:.4f}",
        "adult_exact_last": f"{last['error']['exact']:.6f}",
        "adult_exact_over_formula": f"{last['error']['paper'] / last['error']['exact']:.0f}",
        "adult_n": f"{adult['n_train']:,}",
        "adult_p": str(adult["n_parameters"]),
        "adult_penalty": f"{adult['penalty']:g}",
        "repeats": str(adult["repeats"]),
        "adult_ratio": span(row["ratio"] for row in adult["rows"]),
        "corrected_ratio": span(row["ratio"] for row in corrected["rows"]),
        "pubcov_n": f"{pubcov['n_train']:,}",
        "pubcov_ratio": span(row["ratio"] for row in pubcov["rows"]),
        "adult_one_run": f"{_one_run(last, adult['repeats']):.4f}",
        "corrected_one_run": f"{_one_run(corrected_last, corrected['repeats']):.5f}",
        "corrected_range": f"{max(truth) - min(truth):.5f}",
        "corrected_printed": f"{p1.table_3('adult', 'corrected')['30.00%']:.4f}",
        "mnist_ranks": span(
            (
                spearmanr(row["curve"][way], row["curve"]["retrained"]).statistic
                for row in mnist["rows"]
                for way in ("influence", "by CG", "stochastic")
            ),
            ".3f",
        ),
        "mnist_epsilons": str(len(mnist["rows"][0]["curve"]["epsilon"])),
        "mnist_printed": span(
            (p1.table_3("mnist", "labels")[row["group"]] for row in mnist["rows"]), ".4f"
        ),
        "pubcov_true": f"{large['curve']['retrained'][0]:+.4f}",
        "pubcov_first": f"{large['curve']['paper'][0]:+.4f}",
        "pubcov_exact": f"{large['curve']['exact'][0]:+.4f}",
        "smallest_epsilon": f"{large['curve']['epsilon'][0]:g}",
        "features_printed": f"{p1.FIGURE_2['features']:.4f}",
        "features_formula": f"{named(columns['rows'], block='features')['error']['paper']:.4f}",
        "both_first": f"{both['error']['influence']:.4f}",
        "both_exact": f"{both['error']['exact']:.4f}",
        "mnist_n": f"{mnist['n_train']:,}",
        "mnist_p": f"{mnist['n_parameters']:,}",
        "mnist_ratio": span(row["ratio"] for row in mnist["rows"]),
        "mnist_exact": span((row["error"]["exact"] for row in mnist["rows"]), ".6f"),
        "mnist_first": span((row["error"]["influence"] for row in mnist["rows"]), ".4f"),
        "speed_cells": str(speed["cells"]),
        "speed_n": f"{speed['n_train']:,}",
        "speed_refits": measured(speed["summary"]["refits_of_one_draw_over_exact"]),
        "speed_warm": measured(speed["summary"]["warm_refits_over_exact"]),
        "speed_peer": measured(speed["summary"]["fastest_peer"]["ratio"]),
        "speed_peer_training": measured(speed["summary"]["fastest_peer_with_training"]),
        "growth_stochastic": _growth(results["whatif-cost-growth"], "stochastic"),
        "growth_cholesky": _growth(results["whatif-cost-growth"], "cholesky"),
    }


def _deep(result: Result) -> str:
    lines = {(line["group"], line["method"]): line for line in result["lines"]}
    words = {"influence": "first order", "exact": "`exact`"}
    return table(
        (
            "group",
            "estimate",
            "error to the head",
            "error to the whole network",
            "by the line: error before",
            "after",
        ),
        (
            (
                row["group"],
                words[row["method"]],
                f"{row['head']['error']:.4f}",
                f"{row['whole']['error']:.4f}",
                f"{lines[row['group'], row['method']]['error']:.4f}",
                f"{lines[row['group'], row['method']]['error_after']:.4f}",
            )
            for row in result["errors"]
        ),
    )


def _one_run(row: Result, repeats: int) -> float:
    """Return how much one converged retraining varies, at the ε where it varies most."""
    return float(max(row["curve"]["retrained_standard_error"]) * repeats**0.5)


def _growth(result: Result, solver: str) -> str:
    slope = named(result["slopes"], solver=solver, along="p")["slope"]
    return plus_minus(slope["value"], slope["standard_error"])
