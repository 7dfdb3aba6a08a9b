# SPDX-License-Identifier: Apache-2.0
"""P5: what an attack finds, and masking. Its tables and figures beside ours."""

from __future__ import annotations

from collections.abc import Sequence

from epsilens.risk.membership_attack import null_of_maximum

from .bars import fastest_opacus, gains
from .results import Result, Results, budget, percent, plus_minus, span, table

N_MODELS_QUOTED, SIZES_QUOTED = 1000, (80, 210, 35_208)
"""Quoted: P5 section V, shadow models and the records of its tables."""
TABLE_1_QUOTED = {
    "RaFD": (80, 73.7, 3.1, 29.3, 2.7),
    "JAFFE": (210, 83.2, 2.5, 32.7, 1.1),
    "TFEID": (80, 71.9, 2.8, 28.6, 2.4),
    "100-Driver": (35_208, 91.3, 1.2, 72.1, 1.6),
}
"""Quoted: P5 Table I, records and accuracies without noise in per cent, each with its deviation."""
ASR_QUOTED = 0.54
"""Quoted: where P5 Table II compares."""
FIGURE_5_QUOTED = {"data": "JAFFE", "epsilon": 1, "asr": 0.525, "masked": 4}
"""Quoted: P5 V-C, of Fig. 5: ASR^M at an ε, and the ε with a mask that has the same."""
BEST_ALPHA_QUOTED = {"RaFD": 0.2, "TFEID": 0.2, "JAFFE": 0.1, "100-Driver": 0.3}
"""Quoted: P5 V-D, of Fig. 6a: the α that it chooses."""
AT = 2.0
"""The ε on all features that the table of masks begins with."""


def _attacked(rows: Sequence[Result], place: str) -> str:
    return table(
        (
            "data",
            place,
            "ASR^M",
            "chance reaches (95 %)",
            "at least",
            "no attack above",
            "ε proven",
            "accuracy",
        ),
        (
            (
                row["name"],
                _place(row, place),
                f"{row['asr_max']:.3f}",
                f"{row['floor_q95']:.3f}",
                f"{row['lower_bound']:.3f}",
                f"{row['ceiling']:.3f}",
                f"{row['epsilon_lower_bound']:.2f}",
                f"{row['accuracy']:.3f}",
            )
            for row in rows
        ),
    )


def _place(row: Result, place: str) -> str:
    return budget(row["place"]) if place == "ε" else percent(row["place"])


def _table_2(result: Result, at: float) -> str:
    lines = []
    for row in result["rows"]:
        if row["epsilon"] != at or row["mask"] == "none":
            continue
        equivalents = []
        for measure in ("asr_max", "balanced_accuracy"):
            value = row[f"{measure}_equivalent"]
            shown = "off the grid" if value is None else f"{value:.2g}"
            equivalents.append(
                f"{shown} ({row[f'{measure}_low']:.2g} to {row[f'{measure}_high']:.2g}): "
                f"{row[f'{measure}_gain']}"
            )
        change = plus_minus(100 * row["accuracy_change"], 100 * row["accuracy_change_error"], 1)
        whole = next(
            other
            for other in result["rows"]
            if (other["task"], other["mask"], other["epsilon"]) == (row["task"], "none", at)
        )
        there = row["asr_max_accuracy"]
        accuracies = (
            f"{100 * whole['accuracy']:.1f} → {'–' if there is None else f'{100 * there:.1f}'}"
        )
        lines.append((row["task"], row["mask"], *equivalents, accuracies, change))
    return table(
        (
            "task",
            "mask",
            "ε at equal ASR^M",
            "ε at equal balanced attack accuracy",
            "accuracy %, all features → masked at equal ASR^M",
            "accuracy %, change at the same ε",
        ),
        lines,
    )


def _quoted(result: Result) -> str:
    return table(
        ("data (P5's)", "ε, DP-SGD alone", "accuracy, %", "ε, with masking", "accuracy, %"),
        (
            (name, f"{before:g}", f"{100 * one:.1f}", f"{after:g}", f"{100 * two:.1f}")
            for name, (before, one, after, two) in result["quoted"].items()
        ),
    )


def _baselines(result: Result) -> str:
    rows = {row["task"]: row["n_records"] for row in result["rows"]}
    return table(
        ("task", "records", "whose record it is, %", "the task, %"),
        (
            (
                mask["task"],
                f"{rows[mask['task']]:,}",
                plus_minus(100 * mask["identity_accuracy"], 100 * mask["identity_error"], 1),
                plus_minus(100 * mask["utility_accuracy"], 100 * mask["utility_error"], 1),
            )
            for mask in result["masks"]
            if mask["mask"] == "none"
        ),
    )


def _baselines_quoted() -> str:
    return table(
        ("data (P5's)", "records", "whose record it is, %", "the task, %"),
        (
            (name, f"{size:,}", plus_minus(who, who_error, 1), plus_minus(task, task_error, 1))
            for name, (size, who, who_error, task, task_error) in TABLE_1_QUOTED.items()
        ),
    )


def _curves(result: Result) -> str:
    alphas = [point["alpha"] for point in result["curves"][0]["points"]]
    lines = []
    for curve in result["curves"]:
        for what, key in (("task", "utility_accuracy"), ("people", "identity_accuracy")):
            lines.append(
                (
                    f"{curve['task']}: {what}",
                    *(f"{100 * point[key]:.1f}" for point in curve["points"]),
                )
            )
    return table(("% right", *(f"α = {alpha:g}" for alpha in alphas)), lines)


def _alpha_change(result: Result) -> str:
    """Return the largest gain of the task over α = 0 at a moderate α, and its standard error without a mask."""
    gains_ = []
    for curve in result["curves"]:
        start, *others = curve["points"]
        moderate = [
            p["utility_accuracy"] for p in others if p["alpha"] <= max(BEST_ALPHA_QUOTED.values())
        ]
        gains_.append(100 * (max(moderate) - start["utility_accuracy"]))
    errors = [100 * m["utility_error"] for m in result["masks"] if m["mask"] == "none"]
    return f"{max(gains_):.1f} per cent at most, where one standard error is {span(errors, '.1f')}"


def _costs(result: Result) -> str:
    about = {row["task"]: row for row in result["about"]}
    lines = []
    for mask in result["masks"]:
        if mask["mask"] not in ("SHAP", "LIME"):
            continue
        overlap = about[mask["task"]].get(f"{mask['mask'].lower()}_overlap")
        lines.append(
            (
                mask["task"],
                mask["mask"],
                f"{mask['seconds_per_record']:.4f}",
                f"{mask['seconds_per_mask']:.3f}",
                "–" if overlap is None else percent(overlap),
            )
        )
    return table(
        (
            "task",
            "explainer",
            "explaining a record, s",
            "choosing a mask, s",
            "masked alike by two draws",
        ),
        lines,
    )


def _where(result: Result, measure: str, verdict: str) -> str:
    """Name the tasks, masks and ε at which one measure of exposure has this verdict."""
    places: dict[str, list[str]] = {}
    for row in result["rows"]:
        if row["mask"] != "none" and row[f"{measure}_gain"] == verdict:
            places.setdefault(f"{row['task']} by {row['mask']}", []).append(f"{row['epsilon']:g}")
    return "; ".join(f"{name} at ε = {', '.join(at)}" for name, at in places.items()) or "nowhere"


def facts(results: Results) -> dict[str, str]:
    """Return what the page of P5 shows."""
    lira, masking, speed = results["lira"], results["masking"], results["dp-sgd-speed"]
    random = next(row for row in lira["data_sets"] if row["name"] == "random")
    floors = [row["floor_q95"] for row in lira["epsilon"]]
    small = [row for row in lira["epsilon"] if str(row["place"]) != "inf"]
    worst, balanced = gains(masking, "asr_max"), gains(masking, "balanced_accuracy")
    chance = [null_of_maximum(N_MODELS_QUOTED, n) for n in SIZES_QUOTED]
    half = len(lira["labels_randomised"]) // 2
    removed = lira["features_removed"]
    labels = lira["labels_randomised"][:half]
    return {
        "data_sets": _attacked(lira["data_sets"], "ε"),
        "removed": _attacked(removed, "features removed"),
        "labels": _attacked(labels, "labels at random"),
        "labels_bare": _attacked(lira["labels_randomised"][half:], "labels at random"),
        "over_epsilon": _attacked(lira["epsilon"], "ε"),
        "table_2": _table_2(masking, AT),
        "quoted": _quoted(masking),
        "baselines": _baselines(masking),
        "baselines_quoted": _baselines_quoted(),
        "curves": _curves(masking),
        "costs": _costs(masking),
        "chance_mean": span((floor.mean for floor in chance), ".3f"),
        "chance_high": span((floor[0.95] for floor in chance), ".3f"),
        "asr_quoted": f"{ASR_QUOTED:g}",
        "figure_5_data": str(FIGURE_5_QUOTED["data"]),
        "figure_5_epsilon": str(FIGURE_5_QUOTED["epsilon"]),
        "figure_5_asr": str(FIGURE_5_QUOTED["asr"]),
        "figure_5_masked": str(FIGURE_5_QUOTED["masked"]),
        "best_alpha": span(BEST_ALPHA_QUOTED.values(), "g"),
        "explained_seconds": span(
            (m["seconds_per_record"] for m in masking["masks"] if m["mask"] == "SHAP"), ".2g"
        ),
        "mask_seconds": span(
            (m["seconds_per_mask"] for m in masking["masks"] if m["mask"] == "SHAP"), ".2g"
        ),
        "alpha_change": _alpha_change(masking),
        "at": f"{AT:g}",
        "models": f"{lira['models']:,}",
        "masking_models": str(masking["models"]),
        "alpha": f"{masking['alpha']:g}",
        "random_asr": f"{random['asr_max']:.3f}",
        "floor": span(floors, ".3f"),
        "removed_span": span((row["asr_max"] for row in removed), ".3f"),
        "labels_span": span((row["asr_max"] for row in labels), ".3f"),
        "asr_first": span((row["asr_max"] for row in small if row["place"] == 0.5), ".3f"),
        "asr_last": span((row["asr_max"] for row in small if row["place"] == 10.0), ".3f"),
        "asr_first_p": span((row["p_value"] for row in small if row["place"] == 0.5), ".2g"),
        "above_ceiling": str(sum(row["asr_max"] > row["ceiling"] for row in lira["epsilon"])),
        "bound_above": str(
            sum(row["lower_bound"] > row["ceiling"] for row in lira["epsilon"]) or "none"
        ),
        "n_points": str(len(lira["epsilon"])),
        "pairs": str(sum(worst.values())),
        "worst_larger": str(worst.get("larger", 0)),
        "worst_smaller": str(worst.get("smaller", 0)),
        "larger_where": _where(masking, "balanced_accuracy", "larger"),
        "smaller_where": _where(masking, "balanced_accuracy", "smaller"),
        "by_chance": f"{sum(balanced.values()) * 0.025:.0f}",
        "balanced_larger": str(balanced.get("larger", 0)),
        "balanced_smaller": str(balanced.get("smaller", 0)),
        "logistic_times": f"{fastest_opacus(speed, 'logistic')['times_ours']:.0f}",
        "network_times": f"{fastest_opacus(speed, '64-128-10 network')['times_ours']:.1f}",
        "people_none": span(
            (100 * m["identity_accuracy"] for m in masking["masks"] if m["mask"] == "none"), ".0f"
        ),
    }
