# SPDX-License-Identifier: Apache-2.0
"""P4: what a record is worth. Its Table 1 and Figs. 2 and 3 beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .results import Result, Results, measured, named, plus_minus, scientific, span, table
from .whatif import best_seconds


def _pairs(head: Sequence[str], lines: Iterable[tuple[str, Sequence[tuple[float, float]]]]) -> str:
    """Return a table of pairs: what P4 prints, with all its digits, and what is found here."""
    return table(
        ("data", *(word for column in head for word in (f"{column}, P4", "here"))),
        (
            (
                name,
                *(
                    shown
                    for printed, ours in pairs
                    for shown in (scientific(printed, 3), scientific(ours))
                ),
            )
            for name, pairs in lines
        ),
    )


def _means(rows: list[Result]) -> str:
    return _pairs(
        ("exact", "first order", "second order"),
        (
            (
                row["data"],
                (
                    (row["paper"]["exact_mean"], row["exact_mean"]),
                    *(
                        (row["paper"][way][0], row[way]["mean"])
                        for way in ("first-order", "second-order")
                    ),
                ),
            )
            for row in rows
            if row.get("paper")
        ),
    )


def _errors(rows: list[Result], way: str) -> str:
    return _pairs(
        ("mean absolute error", "mean squared error"),
        (
            (
                row["data"],
                (
                    (row["paper"][way][1], row[way]["mean_absolute_error"]),
                    (row["paper"][way][2], row[way]["mean_squared_error"]),
                ),
            )
            for row in rows
            if row.get("paper")
        ),
    )


def _batches(result: Result) -> str:
    kept = {30: (1, 8, 16, 33), 100: (1, 2, 5, 10), 300: (1, 2, 3)}
    return table(
        (
            "batch size b",
            "batch k",
            "D_b(k), P4's formula",
            "measured",
            "difference in standard errors",
        ),
        (
            (
                str(row["b"]),
                str(row["k"]),
                f"{row['expected']:.3f}",
                plus_minus(row["measured"], row["standard_error"], 3),
                f"{row['z']:+.1f}",
            )
            for row in result["rows"]
            if row["k"] in kept[row["b"]]
        ),
    )


def _times(speed: Result) -> str:
    return table(
        (
            "scores of all records",
            "wall s, best",
            "CPU s, best",
            "of the fastest peer's first order",
        ),
        (
            (
                row["name"],
                f"{best_seconds(row, 'wall_seconds'):.3f}",
                f"{best_seconds(row):.3f}",
                _share(row.get("ratio_to_fastest_peer")),
            )
            for row in speed["rows"]
        ),
    )


def _share(ratio: Mapping[str, float] | None) -> str:
    if ratio is None:
        return "–"
    return measured(ratio) if ratio["standard_error"] else "1"


def _parties(result: Result) -> str:
    return table(
        (
            "features",
            "asking, bytes",
            "reply, bytes",
            "reply, s",
            "largest error, of the largest score",
            "of a score above a hundredth of it",
        ),
        (
            (
                str(row["d"]),
                f"{row['question_bytes']:,}",
                f"{row['reply_bytes']:,}",
                f"{row['reply_seconds']:.2f}",
                f"{row['error_of_largest']:.0e}",
                f"{row['relative_error_above_a_hundredth']:.0e}",
            )
            for row in result["rows"]
        ),
    )


def facts(results: Results) -> dict[str, str]:
    """Return what the page of P4 shows."""
    result, batches = results["loo"], results["batch-correction"]
    rows, speed = result["accuracy"], result["speed"]
    linear = [row for row in rows if row.get("exact_against_extended_precision")]
    banknote = named(rows, data="banknote")
    errors = result["planted_errors"]
    noisy = named(errors, data="survey")["loss_change"]["score, 10%"]
    # A record is a step of one, not of nothing: D_b(k) is for the slope, and 3/2n smaller for steps.
    whole = [
        (row["measured"] - row["expected"] * (1 - 1.5 / (batches["q"] + (row["k"] - 1) * row["b"])))
        / row["standard_error"]
        for row in batches["rows"]
    ]
    rate = [row["measured"] / row["expected"] - 1 for row in batches["rows"]]
    return {
        "means": _means(rows),
        "first_order": _errors(rows, "first-order"),
        "second_order": _errors(rows, "second-order"),
        "batches": _batches(batches),
        "times": _times(speed),
        "parties": _parties(results["private-valuation"]),
        "linear_first_mean": f"{max(abs(row['first-order']['mean']) for row in linear):.0e}",
        "linear_exact": f"{max(row['exact']['largest_relative_error'] for row in linear):.0e}",
        "linear_extended": f"{max(row['exact_against_extended_precision'] for row in linear):.0e}",
        "banknote_printed": f"{banknote['paper']['first-order'][0]:.1e}",
        "banknote_first": f"{banknote['first-order']['mean']:.0e}",
        "banknote_second": f"{banknote['second-order']['mean']:.1e}",
        "banknote_mean": f"{banknote['exact_mean']:.1e}",
        "banknote_exact": f"{banknote['exact']['largest_relative_error']:.0e}",
        "batch_inside": f"{100 * batches['within_two_standard_errors']:.0f}",
        "batch_count": str(len(batches["rows"])),
        "batch_farthest": f"{max(abs(row['z']) for row in batches['rows']):.1f}",
        "batch_trials": str(batches["trials"]),
        "batch_q": str(batches["q"]),
        "batch_mean_gap": f"{-100 * sum(rate) / len(rate):.2f}",
        "batch_whole_inside": f"{100 * sum(abs(z) <= 2 for z in whole) / len(whole):.0f}",
        "batch_offset": f"{sum(row['z'] for row in batches['rows']) / len(whole):+.2f}",
        "batch_whole_offset": f"{sum(whole) / len(whole):+.2f}",
        "speed_n": f"{speed['n_train']:,}",
        "exact_seconds": f"{best_seconds(named(speed['rows'], name='epsilens, logistic, exact'), 'wall_seconds'):.0f}",
        "second_error": f"{100 * speed['summary']['epsilens, logistic, second order, error']:.1f}",
        "first_error": f"{100 * speed['summary']['epsilens, logistic, first order, error']:.0f}",
        "found": span((100 * row["found"]["score"]["mean"] for row in errors), ".0f"),
        "noisy_drop": plus_minus(noisy["mean"], noisy["standard_error"], 3),
        "items": str(results["private-valuation"]["n_items"]),
    }
