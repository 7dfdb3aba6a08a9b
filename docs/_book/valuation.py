# SPDX-License-Identifier: Apache-2.0
"""P4: what a record is worth. Its Table 1 and Figs. 2 and 3 beside ours."""

from __future__ import annotations

from collections.abc import Mapping

from .results import Result, Results, measured, named, plus_minus, span, table
from .whatif import best_seconds

_WAYS = ("first-order", "second-order")


def _table_1(rows: list[Result]) -> str:
    lines = []
    for row in (row for row in rows if row.get("paper")):
        cells = [row["data"], f"{row['paper']['exact_mean']:.2e}", f"{row['exact_mean']:.2e}"]
        for way in _WAYS:
            mean, absolute, _ = row["paper"][way]
            ours = row[way]
            cells += [
                f"{mean:.2e}",
                f"{ours['mean']:.2e}",
                f"{absolute:.2e}",
                f"{ours['mean_absolute_error']:.2e}",
            ]
        cells.append(f"{row['exact']['mean_absolute_error']:.0e}")
        lines.append(cells)
    head = ["data", "mean influence, P4", "here"]
    for order in ("first", "second"):
        head += [f"{order} order: mean, P4", "here", "abs. error, P4", "here"]
    return table([*head, "`exact`: abs. error"], lines)


def _squares(rows: list[Result]) -> str:
    head = ["data"]
    for order in ("first", "second"):
        head += [f"{order} order, P4", "here"]
    return table(
        head,
        (
            (
                row["data"],
                *(
                    f"{value:.2e}"
                    for way in _WAYS
                    for value in (row["paper"][way][2], row[way]["mean_squared_error"])
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
            "largest error",
            "relative error",
        ),
        (
            (
                str(row["d"]),
                f"{row['question_bytes']:,}",
                f"{row['reply_bytes']:,}",
                f"{row['reply_seconds']:.2f}",
                f"{row['error_of_largest']:.0e}",
                f"{row['relative_error']:.0e}",
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
    rate = [row["measured"] / row["expected"] - 1 for row in batches["rows"]]
    return {
        "table_1": _table_1(rows),
        "squares": _squares(rows),
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
        "batch_mean_gap": f"{100 * sum(rate) / len(rate):.2f}",
        "speed_n": f"{speed['n_train']:,}",
        "exact_seconds": f"{best_seconds(named(speed['rows'], name='epsilens, logistic, exact'), 'wall_seconds'):.0f}",
        "second_error": f"{100 * speed['summary']['epsilens, logistic, second order, error']:.1f}",
        "first_error": f"{100 * speed['summary']['epsilens, logistic, first order, error']:.0f}",
        "found": span((100 * row["found"]["score"]["mean"] for row in errors), ".0f"),
        "noisy_drop": plus_minus(noisy["mean"], noisy["standard_error"], 3),
        "items": str(results["private-valuation"]["n_items"]),
    }
