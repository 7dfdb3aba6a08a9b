# SPDX-License-Identifier: Apache-2.0
"""What the two benchmarks of federations were asked to reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .results import Result, percent, span
from .verdicts import REPORTED, Bar

_NAMES = {"income": "Income", "pubcov": "PubCov", "glioma": "Glioma"}
_SOURCES = {"degraded": "what the site would draw", "fresh": "new draws of the true answers"}
_WAYS = {"exact": "`exact`", "one message": "one message"}
_EVERY_PAIR = ("one",)
_LARGE = ("several", "share")
"""Questions with many records changing at once: several clients, or one with much of the data."""


def largest(rows: Sequence[Result], source: str, way: str, what: str) -> float:
    """Return the largest size of a number over the rows of a federation."""
    return max(abs(row["against"][source]["ways"][way][what][0]) for row in rows)


def _asked(result: Result, block: Result, questions: Sequence[str]) -> list[Result]:
    return [
        row
        for row in result["rows"]
        if (row["data"], row["penalty"]) == (block["data"], block["penalty"])
        and row["question"] in questions
    ]


def _regularised(result: Result) -> dict[str, Result]:
    """Return the block of every data set with the largest penalty that was tried."""
    enough: dict[str, Result] = {}
    for block in result["blocks"].values():
        if block["data"] not in enough or block["penalty"] > enough[block["data"]]["penalty"]:
            enough[block["data"]] = block
    return enough


def _listed(values: Mapping[str, float], form: str) -> str:
    return ", ".join(f"{_NAMES[name]} {format(value, form)}" for name, value in values.items())


def change(result: Result) -> list[Bar]:
    """Judge a change of ε after training."""
    bars, enough = result["bars"], _regularised(result)

    def worst(
        questions: Sequence[str], sources: Sequence[str], way: str, what: str
    ) -> dict[str, float]:
        return {
            name: max(
                largest(_asked(result, block, questions), source, way, what) for source in sources
            )
            for name, block in enough.items()
        }

    found = []
    for source, words in _SOURCES.items():
        for way, word in _WAYS.items():
            ratios = worst(_EVERY_PAIR, (source,), way, "ratio")
            found.append(
                Bar.of(
                    f"{word} ≤ {bars[way]:g} times two retrainings apart at every (ε, ε'), against {words}",
                    _listed(ratios, ".2f"),
                    all(value <= bars[way] for value in ratios.values()),
                )
            )
    for way, word in _WAYS.items():
        ratios = worst(_LARGE, tuple(_SOURCES), way, "ratio")
        found.append(
            Bar.of(
                f"{word} ≤ {bars[way]:g} times two retrainings apart where several clients change, or one with much "
                "of the data, against either",
                _listed(ratios, ".2f"),
                all(value <= bars[way] for value in ratios.values()),
            )
        )
    for questions, words in (
        (_EVERY_PAIR, "at every (ε, ε')"),
        (_LARGE, "where several clients change, or one with much of the data"),
    ):
        for way, word in _WAYS.items():
            losses = worst(questions, tuple(_SOURCES), way, "ald")
            found.append(
                Bar.of(
                    f"{word}: difference of the test loss ≤ {bars['ald']:g} {words}",
                    _listed(losses, ".4f"),
                    all(value <= bars["ald"] for value in losses.values()),
                )
            )
    return [*found, _flagged(result), _counted(enough), _cost(enough, bars["cost"])]


def _flagged(result: Result) -> Bar:
    bare = min(
        (b for b in result["blocks"].values() if b["data"] == "glioma"), key=lambda b: b["penalty"]
    )
    advice = {
        entry["advice"]: entry["federations"] for entry in bare["advice"] if entry["federations"]
    }
    flagged = advice.get("regularise", 0) / sum(advice.values())
    return Bar.of(
        "Glioma flagged without enough regularisation",
        f"advice “regularise” in {percent(flagged)} of the federations at λ = {bare['penalty']:g}",
        flagged == 1.0,
    )


def _counted(enough: Mapping[str, Result]) -> Bar:
    traffic = {name: block["cost"]["traffic"]["one message"] for name, block in enough.items()}
    shown = ", ".join(
        f"{_NAMES[name]} {one['messages']} and {one['bytes']:,}" for name, one in traffic.items()
    )
    return Bar("messages and bytes counted", shown, REPORTED)


def _cost(enough: Mapping[str, Result], bar: float) -> Bar:
    times: dict[str, float] = {}
    shown = []
    for name, block in enough.items():
        value, error = block["cost"]["times_one_message"]["federated averaging, 1"]
        more = "" if all(run["reached"] for run in block["cost"]["averaging"]["1"]) else "> "
        times[name] = value
        shown.append(f"{_NAMES[name]} {more}{value:,.0f} ± {error:,.0f}")
    return Bar.of(
        f"training again ≥ {bar:g} times the CPU time of one message",
        ", ".join(shown),
        all(value >= bar for value in times.values()),
    )


def removal(result: Result) -> list[Bar]:
    """Judge the leaving of a site."""
    bar = result["bar"]
    worst = max(row["ratio"]["newton"][0] for row in result["rows"])
    printed = span(row["ratio"]["printed, global H"][0] for row in result["rows"])
    message = span(row["ratio"]["sign corrected, global H"][0] for row in result["rows"])
    return [
        Bar.of(
            f"distance ≤ {bar:g} times that of doing nothing",
            f"two Newton steps at worst {worst:.2f}; one step with the right sign {message}, with the printed one {printed}",
            worst <= bar,
        )
    ]
