# SPDX-License-Identifier: Apache-2.0
"""The tables of benchmarks/federated.py."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from federations import WAYS
from p2 import DATA, TABLE_3

Row = Mapping[str, Any]


def page(rows: Sequence[Row], blocks: Mapping[str, Row], *, draws: int) -> str:
    """Return everything that was measured."""
    parts = [bars(rows, blocks)]
    for block in blocks.values():
        mine = [
            row
            for row in rows
            if row["data"] == block["data"] and row["penalty"] == block["penalty"]
        ]
        name, of = DATA[block["data"]], f"λ = {block['penalty']:g}"
        ones = [row for row in mine if row["question"] == "one"]
        parts += [
            f"**{name}, {of}**: {block['records']:,} training records of five clients, "
            f"{block['parameters']} features, {ones[0]['federations']} federations a line, "
            f"{draws} retrainings of each kind a federation. Distances as multiples of that between "
            "two retrainings (limit 0.71).",
            distances(ones),
            f"{name}, {of}: difference of test loss (ALD) and of accuracy in per cent (AAD), against "
            "degraded draws; P2's numbers are its own, for unconverged models with two outputs, and "
            "the last column is from its published parameters: its update's distance over that of "
            "no update.",
            losses(ones),
            f"{name}, {of}, 3 → 1: several clients, and one client with a share of the records, dealt "
            "out at random (P2 Fig. 2).",
            figure_2([row for row in mine if row["question"] != "one"]),
        ]
    parts += [applied(blocks), costs(blocks), calibrated(blocks), advised(blocks), tried(blocks)]
    return "\n\n".join(part for part in parts if part)


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*rows, *("| " + " | ".join(line) + " |" for line in lines)])


def bars(rows: Sequence[Row], blocks: Mapping[str, Row]) -> str:
    """Return the largest of every number that has a bar, and whether it is met."""
    lines = []
    for block in blocks.values():
        ones = [
            row
            for row in rows
            if row["question"] == "one"
            and row["data"] == block["data"]
            and row["penalty"] == block["penalty"]
        ]

        def largest(source: str, way: str, what: str, ones: Sequence[Row] = ones) -> float:
            return max(abs(row["against"][source]["ways"][way][what][0]) for row in ones)

        cells = [f"{DATA[block['data']]}, λ = {block['penalty']:g}"]
        for source, way, bar in (
            ("degraded", "exact", 0.8),
            ("degraded", "one message", 1.0),
            ("fresh", "exact", 0.8),
            ("fresh", "one message", 1.0),
        ):
            cells.append(_verdict(largest(source, way, "ratio"), bar))
        loss = max(largest("degraded", way, "ald") for way in ("exact", "one message"))
        cells.append(_verdict(loss, 0.002, digits=4))
        same = block["applied"]["exact_largest_difference"]
        cells.append(f"{same:.0e}, {'met' if same <= 1e-6 else 'missed'}")
        times, runs = (
            block["cost"]["times_one_message"]["federated averaging, 1"],
            block["cost"]["averaging"]["1"],
        )
        more = "" if all(run["reached"] for run in runs) else "> "
        cells.append(f"{more}{_times(times)}, {'met' if times[0] >= 100 else 'missed'}")
        advice: dict[str, int] = {}
        for row in ones:
            for word, count in row["advice"].items():
                advice[word] = advice.get(word, 0) + count
        total = sum(advice.values())
        flagged = ", ".join(f"{word} {count / total:.0%}" for word, count in sorted(advice.items()))
        lines.append([*cells, flagged])
    head = (
        "the worst (ε, ε')",
        "`exact`, degraded draws (≤ 0.8)",
        "one message, degraded draws (≤ 1)",
        "`exact`, fresh draws (≤ 0.8)",
        "one message, fresh draws (≤ 1)",
        "ALD (≤ 0.002)",
        "applied: `exact` against scikit-learn (≤ 1e-6)",
        "averaging over one message (≥ 100)",
        "advice on one message",
    )
    return table(head, lines)


def _verdict(value: float, bar: float, *, digits: int = 2) -> str:
    return f"{value:.{digits}f}, {'met' if value <= bar else 'missed'}"


def _pair(found: Sequence[float], digits: int = 2) -> str:
    value, error = found
    shown = 0 if abs(value) >= 100 else digits
    text = f"{value:.{shown}f}"
    return text if math.isnan(error) else f"{text} ± {error:.{shown}f}"


def _change(row: Row) -> str:
    level = "∞" if row["epsilon"] == "inf" else f"{row['epsilon']:g}"
    return f"{level} → {row['wanted']:g}"


def distances(ones: Sequence[Row]) -> str:
    """Return the distances of every way as multiples of that between two retrainings."""
    lines = []
    for row in ones:
        degraded, fresh = row["against"]["degraded"], row["against"]["fresh"]
        ours = ("no update", "one message", "newton", "exact")
        theirs = WAYS
        lines.append(
            [
                _change(row),
                f"{degraded['apart']:.3f}",
                *(_pair(degraded["ways"][way]["ratio"]) for way in ours),
                *(_pair(fresh["ways"][way]["ratio"]) for way in theirs),
            ]
        )
    head = (
        "ε → ε'",
        "two retrainings apart",
        "degraded draws: no update",
        "one message",
        "newton",
        "exact",
        "fresh draws: no update",
        "as printed",
        "global H, raw data",
        "one message",
        "newton",
        "exact",
    )
    return table(head, lines)


def losses(ones: Sequence[Row]) -> str:
    """Return differences of loss and accuracy, P2's printed numbers beside."""
    lines = []
    for row in ones:
        ways = row["against"]["degraded"]["ways"]
        ald, aad, ed = row["p2_table_2"]
        lines.append(
            [
                _change(row),
                *(_pair(ways[way]["ald"], 4) for way in ("no update", "one message", "exact")),
                *(
                    _pair(ways[way]["aad"])
                    for way in ("no update", "as printed", "one message", "exact")
                ),
                f"{ways['one message']['ed'][0]:.3f}",
                f"{ald:.3f}",
                f"{aad:.2f}",
                f"{ed:.3f}",
                f"{row['p2_update_over_none']:.2f}",
            ]
        )
    head = (
        "ε → ε'",
        "ALD, no update",
        "one message",
        "exact",
        "AAD, no update",
        "as printed",
        "one message",
        "exact",
        "ED, one message",
        "P2 ALD",
        "P2 AAD",
        "P2 ED",
        "P2's update / no update",
    )
    return table(head, lines)


def figure_2(rows: Sequence[Row]) -> str:
    """Return what P2 Fig. 2 is about, the prediction and the advice beside."""
    lines = []
    for row in rows:
        ways = row["against"]["degraded"]["ways"]
        who = f"{row['at']} % of records"
        if row["question"] == "several":
            who = f"{row['at']} client{'s' if row['at'] > 1 else ''}"
        advice = ", ".join(f"{word} {count}" for word, count in sorted(row["advice"].items()))
        lines.append(
            [
                who,
                f"{row['against']['degraded']['apart']:.3f}",
                *(
                    _pair(ways[w]["ratio"])
                    for w in ("no update", "as printed", "one message", "exact")
                ),
                _pair(ways["one message"]["ald"], 4),
                _pair(ways["one message"]["aad"]),
                f"{row['actual']['one message']:.4f}",
                f"{row['predicted']['one message']:.4f}",
                advice,
            ]
        )
    head = (
        "who changes",
        "two retrainings apart",
        "no update",
        "as printed",
        "one message",
        "exact",
        "ALD, one message",
        "AAD, one message",
        "one message to `exact`",
        "predicted",
        "advice",
    )
    return table(head, lines)


def applied(blocks: Mapping[str, Row]) -> str:
    """Return changes with a draw against scikit-learn on the same records."""
    lines = [
        [
            f"{DATA[block['data']]}, λ = {block['penalty']:g}",
            str(block["applied"]["changes"]),
            f"{block['applied']['exact_largest_difference']:.0e}",
            _pair(block["applied"]["one_message_share_of_the_way_left"]),
        ]
        for block in blocks.values()
    ]
    head = (
        "data",
        "changes",
        "`exact`, largest difference of a coefficient",
        "one message: share of the way that is left",
    )
    return (
        "**Applied with a draw**, against scikit-learn (newton-cholesky) on the same records.\n\n"
        + table(head, lines)
    )


def costs(blocks: Mapping[str, Row]) -> str:
    """Return what following a change costs against training again."""
    lines = []
    for block in blocks.values():
        found, traffic = block["cost"], block["cost"]["traffic"]
        name = f"{DATA[block['data']]}, λ = {block['penalty']:g}"
        ways = [("one message", None), ("newton rounds", "newton rounds")]
        for way, key in ways:
            seconds = sum(found["seconds"][way]) / len(found["seconds"][way])
            lines.append(
                [
                    name,
                    way,
                    str(traffic[way].get("rounds", 1)),
                    f"{traffic[way]['messages']:,}",
                    f"{traffic[way]['bytes']:,}",
                    f"{1000 * seconds:.1f}",
                    "1" if key is None else _times(found["times_one_message"][key]),
                    "",
                ]
            )
        for steps, runs in found["averaging"].items():
            reached = all(run["reached"] for run in runs)
            times = _times(found["times_one_message"][f"federated averaging, {steps}"])
            left = max(run["distance"] / run["target"] for run in runs)
            still = "stands still" if all(run["stands_still"] for run in runs) else "given up"
            note = "" if reached else f"{still} {left:.0f} times as far away"
            lines.append(
                [
                    name,
                    f"federated averaging, {steps} local step{'s' if steps != '1' else ''}",
                    f"{sum(run['rounds'] for run in runs) / len(runs):,.0f}",
                    f"{sum(run['messages'] for run in runs) / len(runs):,.0f}",
                    f"{sum(run['bytes'] for run in runs) / len(runs):,.0f}",
                    f"{1000 * sum(run['seconds'] for run in runs) / len(runs):,.0f}",
                    times if reached else f"> {times}",
                    note,
                ]
            )
    head = (
        "data",
        "way",
        "rounds",
        "messages",
        "bytes",
        "CPU milliseconds",
        "times one message",
        "",
    )
    theirs = "; ".join(
        f"{DATA[name]} {full:g} s against {one:g} s, {full / one:.0f} times"
        for name, (full, one) in TABLE_3.items()
    )
    return (
        "**Cost** of 3 → 1 for one client, in one process on one core, three federations. Averaging runs "
        "from zeros until it is as near to the retrained model as one message came. One message is "
        "N + 1 messages, training 2EN.\n\n"
        + table(head, lines)
        + f"\n\nP2 Table 3 has for training and Eq. 14: {theirs}."
    )


def _times(found: Sequence[float | None]) -> str:
    value, error = found
    if value is None:
        return "–"
    digits = 0 if value >= 10 else 1
    return f"{value:,.{digits}f}" + ("" if error is None else f" ± {error:,.{digits}f}")


def calibrated(blocks: Mapping[str, Row]) -> str:
    """Return how the predicted error compares with the real distance to `exact`."""
    lines = []
    for block in blocks.values():
        for way, found in block["calibration"].items():
            lines.append(
                [
                    f"{DATA[block['data']]}, λ = {block['penalty']:g}",
                    way,
                    str(found["federations"]),
                    *(f"{found[f'q{q}']:.2f}" for q in (5, 25, 50, 75, 95)),
                    f"{found['at_least_half']:.0%}",
                ]
            )
    head = ("data", "way", "federations", "5 %", "25 %", "median", "75 %", "95 %", "≥ half of it")
    return (
        "**Predicted error** over the real distance to `exact`: quantiles over all federations above "
        "whose error is more than a thousandth of the step.\n\n" + table(head, lines)
    )


def advised(blocks: Mapping[str, Row]) -> str:
    """Return how far one message really was off, by the advice that was given."""
    lines = []
    for block in blocks.values():
        for found in block["advice"]:
            lines.append(
                [
                    f"{DATA[block['data']]}, λ = {block['penalty']:g}",
                    found["advice"],
                    str(found["federations"]),
                    *(f"{found[f'q{q}']:.0%}" for q in (5, 50, 95)),
                ]
            )
    head = ("data", "advice", "federations", "5 %", "median", "95 %")
    return (
        "**Advice** on one message, and how far it really was from `exact`, as a share of the step.\n\n"
        + table(head, lines)
    )


def tried(blocks: Mapping[str, Row]) -> str:
    """Return how much regularisation Glioma needs."""
    found = next((block["tried"] for block in blocks.values() if block["tried"]), [])
    if not found:
        return ""
    lines = [
        [
            f"{row['penalty']:g}",
            f"{row['largest_exact']:.2f}",
            f"{row['largest_one_message']:.2f}",
            f"{row['largest_ald']:.4f}",
            "yes" if row["meets_bars"] else "no",
        ]
        for row in found
    ]
    head = ("λ", "worst `exact`", "worst one message", "largest ALD", "meets all three bars")
    return (
        "**Glioma**: how much regularisation it takes, at the hardest changes, against degraded draws, "
        "with other seeds than above.\n\n" + table(head, lines)
    )
