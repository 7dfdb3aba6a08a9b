# SPDX-License-Identifier: Apache-2.0
"""P2: changing ε after training. Its tables and figures and Eq. 27 beside ours."""

from __future__ import annotations

from .federated_bars import largest
from .results import Result, Results, budget, fixed, plus_minus, quoted, span, table

CHANGE = (3, 1)
"""ε and ε' of P2 Fig. 2."""
_NAMES = {"income": "Income", "pubcov": "PubCov", "glioma": "Glioma"}


def _rows(result: Result, data: str, penalty: float, question: str = "one") -> list[Result]:
    return [
        row
        for row in result["rows"]
        if (row["data"], row["penalty"], row["question"]) == (data, penalty, question)
    ]


def _penalties(result: Result, data: str) -> list[float]:
    return sorted(b["penalty"] for b in result["blocks"].values() if b["data"] == data)


def _table_2(result: Result, data: str) -> str:
    penalty = _penalties(result, data)[-1]
    lines = []
    for row in _rows(result, data, penalty):
        ways = row["against"]["degraded"]["ways"]
        ald, aad, ed = row["p2_table_2"]
        lines.append(
            (
                f"{budget(row['epsilon'])}\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}{budget(row['wanted'])}",
                f"{ald:.3f}",
                fixed(ways["one message"]["ald"][0], 4),
                f"{aad:.2f}",
                plus_minus(*ways["one message"]["aad"]),
                f"{ed:.3f}",
                f"{ways['one message']['ed'][0]:.3f}",
                f"{ways['exact']['ed'][0]:.3f}",
                f"{row['against']['degraded']['apart']:.3f}",
                f"{row['p2_update_over_none']:.2f}",
                f"{_over_none(row, 'one message'):.2f}",
            )
        )
    return table(
        (
            "ε → ε'",
            "ALD, P2",
            "here",
            "AAD %, P2",
            "here",
            "ED, P2",
            "here",
            "`exact`",
            "two apart",
            "/ none, P2",
            "/ none, here",
        ),
        lines,
    )


def _figure_2(result: Result, question: str, head: str) -> str:
    lines = []
    for data, name in _NAMES.items():
        penalty = _penalties(result, data)[-1]
        for row in _rows(result, data, penalty, question):
            ways = row["against"]["degraded"]["ways"]
            lines.append(
                (
                    name,
                    str(row["at"]),
                    f"{ways['no update']['ratio'][0]:.2f}",
                    *(plus_minus(*ways[way]["ratio"]) for way in ("as printed", "one message")),
                    f"{ways['exact']['ratio'][0]:.2f}",
                    *(fixed(ways[way]["ald"][0], 4) for way in ("as printed", "one message")),
                    *(plus_minus(*ways[way]["aad"]) for way in ("as printed", "one message")),
                )
            )
    distance = ("no update", "P2's formula", "one message", "`exact`")
    others = ("ALD, P2's", "ours", "AAD %, P2's", "ours")
    return table(("data", head, *distance, *others), lines)


def _table_3(result: Result) -> str:
    p2, lines = quoted("p2"), []
    for data, (training, update) in p2.TABLE_3.items():
        at_once = p2.TABLE_3_AT_ONCE[data]
        penalty = _penalties(result, data)[-1]
        block = result["blocks"][f"{data}, {penalty:g}"]
        cost = block["cost"]
        runs = cost["averaging"]["1"]
        is_reached = all(run["reached"] for run in runs)
        times, error = cost["times_one_message"]["federated averaging, 1"]
        traffic = cost["traffic"]
        seconds = sum(cost["seconds"]["one message"]) / len(cost["seconds"]["one message"])
        lines.append(
            (
                f"{_NAMES[data]}, λ = {penalty:g}",
                f"{training:,.2f} against {update:.2f}",
                f"{training / update:.0f} ({at_once / update:.1f})",
                f"{1000 * seconds:.1f}",
                f"{'' if is_reached else '> '}{times:,.0f} ± {error:,.0f}",
                plus_minus(*cost["times_one_message"]["newton rounds"], digits=1),
                f"{traffic['one message']['bytes']:,}",
                f"{traffic['newton rounds']['bytes']:,}",
            )
        )
    return table(
        (
            "data",
            "training and Eq. 14, P2, s",
            "times, P2 (clients at once)",
            "one message, CPU ms",
            "averaging / one message",
            "`exact` rounds / one message",
            "bytes, one message",
            "bytes, `exact`",
        ),
        lines,
    )


def _table_1(result: Result) -> str:
    """Return P2's orders and messages, and how many of ours there were."""
    cost = result["blocks"][f"income, {_penalties(result, 'income')[-1]:g}"]["cost"]
    traffic, runs = cost["traffic"], cost["averaging"]["1"]
    again = sum(run["messages"] for run in runs) / len(runs)
    return table(
        ("", "P2 prints: cost of order", "messages, P2", "messages here, Income"),
        (
            (
                "update, exact H⁻¹",
                "nᵢp² + p³",
                "at most N + 1",
                f"{traffic['one message']['messages']}",
            ),
            ("update, conjugate gradient", "nᵢp", "at most N + 1", "–"),
            ("update, stochastic estimation", "nᵢp + rtp", "at most N + 1", "–"),
            ("training again", "Enp", "2EN", f"{again:,.0f}"),
            ("`exact` rounds", "–", "–", f"{traffic['newton rounds']['messages']}"),
        ),
    )


def _removals(result: Result) -> str:
    groups: dict[tuple[str, float], list[Result]] = {}
    for row in result["rows"]:
        groups.setdefault((row["data"], row["penalty"]), []).append(row)
    return table(
        (
            "data",
            "printed, own H",
            "printed, global H",
            "sign corrected",
            "two Newton steps",
            "averaging without it",
        ),
        (
            (
                f"{_NAMES[data]}, λ = {penalty:g}",
                *(
                    span(row["ratio"][way][0] for row in rows)
                    for way in (
                        "printed, own H",
                        "printed, global H",
                        "sign corrected, global H",
                        "newton",
                        "averaging without it",
                    )
                ),
            )
            for (data, penalty), rows in groups.items()
        ),
    )


def _first_and_last(result: Result, data: str) -> str:
    """Return the distance of P2's formula with one client changing and with the most."""
    rows = _rows(result, data, _penalties(result, data)[-1], "several")
    ends = (
        row["against"]["degraded"]["ways"]["as printed"]["ratio"] for row in (rows[0], rows[-1])
    )
    return " to ".join(plus_minus(*end) for end in ends)


def _large_losses(result: Result) -> str:
    """Return the largest difference of the test loss over both parts of Fig. 2, by data set and way."""
    found = []
    for way in ("one message", "exact"):
        worst = [
            max(
                largest(
                    _rows(result, data, _penalties(result, data)[-1], question), source, way, "ald"
                )
                for question in ("several", "share")
                for source in ("degraded", "fresh")
            )
            for data in _NAMES
        ]
        found.append(", ".join(f"{value:.4f}" for value in worst))
    return f"{found[0]} by one message and {found[1]} by `exact`"


def _over_none(row: Result, way: str) -> float:
    """Return an update's distance over that of no update, against fresh draws as P2's are."""
    ways = row["against"]["fresh"]["ways"]
    return float(ways[way]["ratio"][0] / ways["no update"]["ratio"][0])


def facts(results: Results) -> dict[str, str]:
    """Return what the page of P2 shows."""
    result = results["federated"]
    low, high = _penalties(result, "glioma")
    bare, enough = _rows(result, "glioma", low), _rows(result, "glioma", high)
    income = _rows(result, "income", _penalties(result, "income")[-1])
    pubcov = _rows(result, "pubcov", _penalties(result, "pubcov")[-1])
    large = [*income, *pubcov]
    useless = [row for row in (*income, *pubcov, *bare) if row["p2_update_over_none"] >= 1]
    spread = [
        row["against"]["degraded"]["ways"]
        for data in _NAMES
        for question in ("several", "share")
        for row in _rows(result, data, _penalties(result, data)[-1], question)
    ]
    bare_several = _rows(result, "glioma", low, "several")[-1]["against"]["degraded"]["ways"]
    shares = [
        row["against"]["degraded"]["ways"]
        for data in _NAMES
        for row in _rows(result, data, _penalties(result, data)[-1], "share")
    ]
    return {
        "before": str(CHANGE[0]),
        "after": str(CHANGE[1]),
        "share_printed": span(ways["as printed"]["ratio"][0] for ways in shares),
        "spread_message": span(ways["one message"]["ratio"][0] for ways in spread),
        "spread_exact": span(ways["exact"]["ratio"][0] for ways in spread),
        "income": _table_2(result, "income"),
        "pubcov": _table_2(result, "pubcov"),
        "glioma": _table_2(result, "glioma"),
        "several": _figure_2(result, "several", "how many"),
        "share": _figure_2(result, "share", "% of all"),
        "table_1": _table_1(result),
        "table_3": _table_3(result),
        "several_printed": "; ".join(
            f"{name} {_first_and_last(result, data)}" for data, name in _NAMES.items()
        ),
        "figure_2_aad": f"{quoted('p2').FIGURE_2_AAD:g}",
        "bare_aad": plus_minus(*bare_several["as printed"]["aad"], digits=1),
        "bare_message_aad": plus_minus(*bare_several["one message"]["aad"], digits=1),
        "large_ald": _large_losses(result),
        "removals": _removals(results["federated-remove"]),
        "glioma_low": f"{low:g}",
        "glioma_high": f"{high:g}",
        "glioma_bare_worst": f"{largest(bare, 'degraded', 'one message', 'ratio'):.1f}",
        "glioma_enough_worst": f"{largest(enough, 'degraded', 'one message', 'ratio'):.2f}",
        "income_worst": f"{largest(income, 'degraded', 'one message', 'ratio'):.2f}",
        "pubcov_worst": f"{largest(pubcov, 'degraded', 'one message', 'ratio'):.2f}",
        "exact_worst": span(
            largest(rows, "degraded", "exact", "ratio") for rows in (income, pubcov, enough)
        ),
        "fresh_worst": span(
            largest(rows, "fresh", "exact", "ratio") for rows in (income, pubcov, enough)
        ),
        "printed_aad": f"{max(abs(row['p2_table_2'][1]) for row in (*income, *pubcov, *bare)):.2f}",
        "our_aad": f"{max(largest(rows, 'degraded', 'one message', 'aad') for rows in (income, pubcov, enough)):.2f}",
        "same_formula": str(sum(_over_none(row, "as printed") >= 1 for row in large)),
        "same_published": str(sum(row["p2_update_over_none"] >= 1 for row in large)),
        "same_of": str(len(large)),
        "message_useless": str(
            sum(_over_none(row, "one message") >= 1 for row in (*large, *enough))
        ),
        "message_of": str(len(large) + len(enough)),
        "useless": str(len(useless)),
        "useless_of": str(len(income) + len(pubcov) + len(bare)),
        "draws": str(result["draws"]),
        "federations": str(income[0]["federations"]),
        "removal_worst": f"{max(r['ratio']['newton'][0] for r in results['federated-remove']['rows']):.2f}",
        "removal_bar": f"{results['federated-remove']['bar']:g}",
        "glioma_times": f"{result['blocks'][f'glioma, {high:g}']['cost']['times_one_message']['federated averaging, 1'][0]:.0f}",
    }
