# SPDX-License-Identifier: Apache-2.0
"""All benchmarks on one page: what was asked for, what was reached, and how old the results are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import ages
from .bars import JUDGES
from .results import Results, table
from .verdicts import MET, MISSED, REPORTED, UNMEASURED, Bar

_MISSING = {
    "whatif-scale": (
        "slope ≤ 1.1, memory < 2 GB at ten million rows, fit ≤ 10 and point table ≤ 3 bare passes, two processes ≥ 1.5",
        "no result is kept in `benchmarks/results`",
    ),
    "page": (
        "input to paint < 50 ms at the 95th percentile; report < 3 MB",
        "no result is kept in `benchmarks/results`",
    ),
}


_NOTES = {
    "every group size by itself": (
        "**Coverage by group size.** The interval was asked to cover within a range. Over all cells together it "
        "does, in every table. Taken strictly, a few single group sizes fall outside; by how many of its standard "
        "errors stands beside each."
    ),
    "training counted for both": (
        "**With training counted.** Our point table needs a converged model. Whoever has to train anyway wins less "
        "by a fast table."
    ),
    "refits, each from nothing": (
        "**Refits from nothing.** An earlier version was above the bar on another machine. Its `exact` cells, run in turns with "
        "today's on this machine, took somewhat less time, by less than single runs of one version scatter. So most of the "
        "difference seems to be the machine's, and some may be ours; the earlier version's ratio was *not tested* here."
    ),
    "begun at its neighbour's": (
        "**Refits that begin at their neighbour's result** need fewer steps. `exact` gives an interval, accuracy and AUC "
        "besides, which these refits do not; what it costs without them is in the [table](../benchmarks.md)."
    ),
    "bare pass, by the clock": (
        "**Bare passes by the clock.** By processor time, which other programs on the machine change less, the "
        "ratios stand beside; what the rest of the difference is was *not tested*."
    ),
    "good cells of all methods": (
        "**Good cells that are marked.** `exact` alone is above the bar. `newton` and `influence` may not replace their numbers "
        "by solved runs, and are marked wherever they might be off; which of these marks could be spared was *not tested*."
    ),
    "two processes": (
        "**Two workers.** A fit's first look and what it computes between its passes are one worker's, and the smallest "
        "table has two pieces of unequal size to share; whether that is all was *not tested*. At ten million rows only the "
        "bare pass was run by one and by two; the fit was not."
    ),
    "D_b(k)": (
        "**Batches.** D_b(k) is for a slope; for whole records the ratio is a little smaller, which accounts for "
        "most of it ([P4](p4.md))."
    ),
    "new draws of the true answers": (
        "**Fresh draws.** A preview that sees only randomised answers cannot come as near to a model of new draws "
        "as one that sees the true answers, and the latter gives them away ([P2](p2.md))."
    ),
    "difference of the test loss": (
        "**Loss where much changes at once.** One message leaves out what `exact` follows, and that grows with what "
        "changes: on Income and PubCov `exact` stays within. On Glioma, with few records, neither does; why is "
        "*not tested* ([P2](p2.md))."
    ),
    "the CPU time of one message": (
        "**Glioma's cost.** With enough regularisation its training is so short that a single message saves less."
    ),
    "a quarter more": (
        "**A quarter more.** Both bounds are above that of jax_privacy at every point, and not by as much as was "
        "hoped ([P3](p3.md))."
    ),
    "every table by itself": (
        "**Previews by table.** A perfect preview is beyond two standard errors in about one cell of twenty, so a table with few "
        "cells falls below the bar by chance now and then; whether it was chance was *not tested*."
    ),
    "beside every preview": (
        "**Real trainings.** With noise of the operating system they take long. Which ones were not made stands under the "
        "[table](../benchmarks.md); nothing is said about their previews."
    ),
    "above Opacus": (
        "**Beside Opacus.** Its ε is about a record that is added or removed, ours about a replaced one, which needs twice the "
        "noise; what is left at the same advantage is not explained by that. Its settings were searched for every cell by the test "
        "loss; the steps of ours were chosen once, by the test loss on the same two tables."
    ),
    "input to paint": (
        "**The page.** Frames come when the machine lets the browser work: see its load beside the table."
    ),
}
"""What is known about a bar that is not met, by words of the bar; shown only where it is not."""


def notes(missed: Sequence[Bar]) -> list[str]:
    """Return what is known about the bars that are not met, and which have no explanation."""
    known = [note for words, note in _NOTES.items() if any(words in bar.asked for bar in missed)]
    bare = [bar.asked for bar in missed if not any(words in bar.asked for words in _NOTES)]
    return known + [f"*Not explained:* {asked}." for asked in bare]


def judged(results: Results) -> dict[str, list[Bar]]:
    """Return the bars of every benchmark; one without a result is said to be not measured."""
    found = {}
    for name, (_, _, judge) in JUDGES.items():
        if name in results:
            found[name] = judge(results)
        else:
            asked, why = _MISSING.get(name, ("see its script", "no result is kept"))
            found[name] = [Bar(asked, why, UNMEASURED)]
    return found


def summary(bars: Sequence[Bar]) -> str:
    """Return one verdict for a benchmark."""
    verdicts = [bar.verdict for bar in bars]
    if UNMEASURED in verdicts:
        return UNMEASURED
    decided = [verdict for verdict in verdicts if verdict != REPORTED]
    if not decided:
        return REPORTED
    missed = decided.count(MISSED)
    if not missed:
        return MET
    return MISSED if missed == len(decided) else f"**{missed} of {len(decided)} not met**"


def _known_age(name: str, known: Mapping[str, ages.Age]) -> tuple[str, str]:
    if name not in known:
        return "–", "–"
    since = [f"`{file}`" for file in ages.changed(name, known[name])]
    return known[name]["made"], ", ".join(since) or "none"


def facts(results: Results) -> dict[str, str]:
    """Return what the overview shows."""
    found, known = judged(results), ages.read()
    rows, sections = [], []
    for name, bars in found.items():
        about, page, _ = JUDGES[name]
        linked = f"[{about}]({page}.md)" if page else about
        rows.append((f"`{name}`", linked, summary(bars)))
        sections.append(
            f"### {name}\n\n"
            + table(("asked for", "reached", ""), ((b.asked, b.reached, b.verdict) for b in bars))
        )
    every = [bar for bars in found.values() for bar in bars]
    counts = {verdict: sum(bar.verdict == verdict for bar in every) for verdict in (MET, MISSED)}
    short = [
        (name, bar)
        for name, bars in found.items()
        for bar in bars
        if bar.verdict in (MISSED, UNMEASURED)
    ]
    missed = [(f"`{name}`", bar.asked, bar.reached) for name, bar in short]
    ages_rows = [(f"`{name}`", *_known_age(name, known)) for name in sorted({*JUDGES, *results})]
    older = [name for name, age in known.items() if ages.script(name) in ages.changed(name, age)]
    return {
        "summary": table(("benchmark", "about", "verdict"), rows),
        "sections": "\n\n".join(sections),
        "missed": table(("benchmark", "asked for", "reached"), missed),
        "notes": "\n".join(
            f"- {note}" for note in notes([bar for _, bar in short if bar.verdict == MISSED])
        ),
        "n_benchmarks": str(len(found)),
        "n_met": str(counts[MET]),
        "n_missed": str(counts[MISSED]),
        "n_decided": str(counts[MET] + counts[MISSED]),
        "ages": table(("result", "made", "changed since, of `benchmarks/`"), ages_rows),
        "older": ", ".join(f"`{name}`" for name in older) or "nowhere now",
    }
