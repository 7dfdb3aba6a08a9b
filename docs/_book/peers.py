# SPDX-License-Identifier: Apache-2.0
"""The tools that users know, where a script measured them beside us."""

from __future__ import annotations

import re
from collections.abc import Mapping

from scipy.stats import t

from . import ages
from .bars import bound_means, fastest_opacus
from .results import ROOT, Result, Results, measured, named, percent, plus_minus, span, table
from .whatif import best_seconds

WINE_COLUMNS, GENERATED_COLUMNS = 11, 5
PRIVACY_METER = "1.0.1"
"""Of July 2023, the newest on the package index; looked at, not run."""

ATTACK_LEVEL = 0.05
LEAKPRO_COMMIT = "c47752f"
"""As in benchmarks/peers/leakpro.txt."""

LOOKED_UP = "2026-11-19"
NEWEST = {
    "LeakPro": "0.0.1, a placeholder",
    "PrivacyGuard": "0.0.2, as `privacyguard-platform`",
    "diffprivlib": "0.6.6",
    "Flower": "1.42.0",
}
"""Newest releases on that day where they are not those that were used."""

_PAGES = {
    "pyinfluence": "https://github.com/maschulz/pyinfluence",
    "pyDVL": "https://pydvl.org",
    "jax_privacy": "https://github.com/google-deepmind/jax_privacy",
    "Opacus": "https://opacus.ai",
    "Privacy Meter": "https://github.com/privacytrustlab/ml_privacy_meter",
    "SACRO-ML": "https://github.com/AI-SDC/SACRO-ML",
    "LeakPro": "https://github.com/aidotse/LeakPro",
    "PrivacyGuard": "https://github.com/facebookresearch/PrivacyGuard",
    "riskcal": "https://github.com/interpretable-dp/riskcal",
    "DP Wizard": "https://github.com/opendp/dp-wizard",
    "diffprivlib": "https://github.com/IBM/differential-privacy-library",
    "Flower": "https://flower.ai/docs/framework",
}


def _versions(results: Results, known: Mapping[str, ages.Age]) -> str:
    """Return the release of every tool, when it was measured or how it was looked at, and its page."""
    rows = results["whatif-speed"]["rows"]
    flower = re.search(r"flwr\[simulation\]>=([\d.]+)", (ROOT / "pyproject.toml").read_text())
    releases = {
        "pyinfluence": named(rows, name="pyinfluence, its scores")["version"],
        "pyDVL": named(rows, name="pyDVL, direct")["version"],
        "jax_privacy": results["one-run"]["peer"].removeprefix("jax_privacy "),
        "Opacus": results["dp-sgd-speed"]["opacus"],
        "Privacy Meter": PRIVACY_METER,
        "SACRO-ML": results["attack-peers"]["versions"]["SACRO-ML"],
        "LeakPro": f"{results['attack-peers']['versions']['LeakPro']}, commit {LEAKPRO_COMMIT}",
        "PrivacyGuard": results["attack-peers"]["versions"]["PrivacyGuard"],
        "riskcal": "1.5.1",
        "DP Wizard": "0.10.0",
        "diffprivlib": results["ridge"]["diffprivlib"],
        "Flower": flower[1] if flower else "–",
    }
    measured_by = {
        "pyinfluence": "whatif-speed",
        "pyDVL": "whatif-speed",
        "jax_privacy": "one-run",
        "Opacus": "dp-sgd-speed",
        "SACRO-ML": "attack-peers",
        "LeakPro": "attack-peers",
        "PrivacyGuard": "attack-peers",
        "diffprivlib": "ridge",
    }
    how = {
        "Privacy Meter": "read, not run",
        "riskcal": "our tests compare with it",
        "DP Wizard": "read, not run",
        "Flower": "used: our messages run on it",
    }
    return table(
        ("tool", "release", f"newest on the package index, {LOOKED_UP}", "measured", "its page"),
        (
            (
                tool,
                releases[tool],
                NEWEST.get(tool, releases[tool]),
                f"{known[measured_by[tool]]['made']}, `make bench-{measured_by[tool]}`"
                if tool in measured_by
                else how[tool],
                f"<{page}>",
            )
            for tool, page in _PAGES.items()
        ),
    )


def _influence(result: Result) -> str:
    names = (
        "epsilens, point table",
        "pyinfluence, H⁻¹ only",
        "pyinfluence, its scores",
        "pyDVL, direct",
        "pyDVL, conjugate gradient",
        "dattri, explicit",
        "statsmodels, Logit",
    )
    return table(
        ("first order, all cells", "version", "CPU ms, best", "times ours"),
        (
            (
                name,
                row["version"],
                f"{1000 * best_seconds(row):,.1f}",
                _times(row["ratio_to_ours"]["cpu"]),
            )
            for name in names
            for row in [named(result["rows"], name=name)]
        ),
    )


def _times(ratio: Mapping[str, float]) -> str:
    return measured(ratio, 1) if ratio["standard_error"] else "1"


def _opacus(result: Result) -> str:
    lines = []
    for task in ("logistic", "softmax", "64-128-10 network"):
        for row in result["rows"]:
            if row["task"] == task and row.get("times_ours") is not None:
                lines.append(
                    (
                        task,
                        row["who"],
                        f"{min(row['milliseconds_per_model']):.1f}",
                        plus_minus(row["times_ours"], row["times_ours_standard_error"], 1),
                        plus_minus(row["accuracy"], row["accuracy_standard_error"], 4),
                    )
                )
    return table(("model", "who", "ms a model", "times ours", "accuracy"), lines)


def _jax(result: Result) -> str:
    return table(
        (
            "nominal ε",
            "truth",
            "(ε, δ), ours",
            "jax_privacy one-run",
            "Gaussian, ours",
            "jax_privacy f-DP",
        ),
        (
            (
                f"{point['epsilon']:g}",
                f"{point['true_epsilon']:.2f}",
                *(
                    f"{bound_means(point)['P3', bound]:.2f}"
                    for bound in ("approximate", "jax one-run", "f-dp", "jax f-DP")
                ),
            )
            for point in result["points"]
            if point["sweep"] == "epsilon"
        ),
    )


def _diffprivlib(result: Result) -> str:
    lines = []
    for name, base in result["baselines"].items():
        for rho in (0.1, 1.0, 10.0):
            cells = {
                c["method"]: c for c in result["cells"] if c["table"] == name and c["rho"] == rho
            }
            lines.append(
                (
                    name,
                    f"{cells['tight']['epsilon']:.3g}",
                    f"{base['no noise']:.4f}",
                    *(
                        f"{cells[m]['median']:.4g}"
                        for m in ("tight", "tight, replace-one", "AdaSSP", "diffprivlib, ε(δ)")
                    ),
                )
            )
    return table(
        (
            "table",
            "ε",
            "no noise",
            "`PrivateRidge`",
            "the same, a record replaced",
            "`AdaSSP`",
            "diffprivlib",
        ),
        lines,
    )


def _bottomless(result: Result, *names: str) -> str:
    """Say in how many of diffprivlib's releases the noised objective had no minimum, if it was counted."""
    if "smallest_eigenvalue" not in result:
        return "(In how many releases that is so will be counted when the benchmark is next run.)"
    parts = []
    for name in names:
        cells = [
            c for c in result["cells"] if (c["table"], c["method"]) == (name, "diffprivlib, ε(δ)")
        ]
        share = span((100 * cell["bottomless"] for cell in cells), ".0f")
        smallest = result["smallest_eigenvalue"][name]
        parts.append(
            f"{name}: {share} per cent of the releases, smallest eigenvalue {smallest:,.0f}"
        )
    return f"Counted over all ε: {'; '.join(parts)}."


def _noised(columns: int) -> str:
    """Return how many numbers share diffprivlib's budget: yᵀy, Xᵀy and one half of XᵀX."""
    return str(1 + columns + columns * (columns + 1) // 2)


def _averaging(result: Result) -> str:
    names = {"income": "Income", "pubcov": "PubCov", "glioma": "Glioma"}
    kept: dict[str, Result] = {}
    for block in result["blocks"].values():
        if block["data"] not in kept or block["penalty"] > kept[block["data"]]["penalty"]:
            kept[block["data"]] = block
    lines = []
    for data, block in kept.items():
        one, runs = block["cost"]["traffic"]["one message"], block["cost"]["averaging"]["1"]
        more = "" if all(run["reached"] for run in runs) else "> "
        lines.append(
            (
                names[data],
                f"{one['messages']:,}",
                f"{one['bytes']:,}",
                *(
                    f"{more}{sum(run[what] for run in runs) / len(runs):,.0f}"
                    for what in ("rounds", "messages", "bytes")
                ),
            )
        )
    return table(
        (
            "data",
            "one change of ε: messages",
            "bytes",
            "training again: rounds",
            "messages",
            "bytes",
        ),
        lines,
    )


def _solvers(result: Result) -> str:
    return table(
        ("data", "parameters", "solver", "s for H⁻¹η", "largest error"),
        (
            (
                row["data"],
                f"{row['n_parameters']:,}",
                row["solver"],
                f"{row['seconds']:.2f}",
                f"{row['error']:.0e}" if row["error"] else "–",
            )
            for row in result["rows"]
        ),
    )


def _attacks(result: Result) -> str:
    def cell(row: Result, what: str) -> str:
        return plus_minus(row[what]["mean"], row[what]["standard_error"], 3)

    return table(
        (
            "table",
            "model",
            "library",
            "attack",
            "outputs",
            "TPR at 1 %",
            "ours minus this",
            "TPR at 0.1 %",
            "AUC",
        ),
        (
            (
                row["table"],
                row["model"],
                row["library"],
                row["method"],
                row["outputs"],
                cell(row, "tpr_1"),
                "–" if row["library"] == "epsilens" else cell(row, "ours_minus_this"),
                cell(row, "tpr_01"),
                cell(row, "auc"),
            )
            for row in result["summary"]
        ),
    )


def _attack_verdict(result: Result, library: str) -> str:
    """Say where a library's best attack finds more members than ours and where fewer, beyond chance in all cases together."""
    peers = [row for row in result["summary"] if row["library"] != "epsilens"]
    limit = t.ppf(1 - ATTACK_LEVEL / (2 * len(peers)), result["targets"] - 1)
    own = [row for row in peers if row["library"] == library]
    gaps = [row["ours_minus_this"] for row in own]
    more, fewer = (
        [
            f"{row['table']}, {row['model']}"
            for row, gap in zip(own, gaps, strict=True)
            if sign * gap["mean"] > limit * gap["standard_error"]
        ]
        for sign in (-1, 1)
    )
    points = span((-100 * gap["mean"] for gap in gaps), "+.1f")
    told = [
        f"At 1 % false positives its best attack finds {points} percentage points of the members more than ours in {len(own)} cases"
    ]
    for words, found in (("more", more), ("fewer", fewer)):
        told.append(
            f"clearly {words} in {len(found)}" + (f" ({'; '.join(found)})" if found else "")
        )
    return (
        "; ".join(told)
        + f" (95 % for all {len(peers)} comparisons together, the shadow models taken as given)."
    )


def _attack_auc(result: Result, library: str) -> str:
    """Return by how much a library's largest AUC exceeds our largest, as a range over tables and models."""
    gaps = []
    for where in dict.fromkeys((row["table"], row["model"]) for row in result["rows"]):
        here = [row for row in result["rows"] if (row["table"], row["model"]) == where]
        largest = {
            who: max(sum(row["auc"]) / len(row["auc"]) for row in here if row["library"] == who)
            for who in ("epsilens", library)
        }
        gaps.append(largest[library] - largest["epsilens"])
    return span(gaps, "+.3f")


def _attack_default(result: Result) -> str:
    """Return what `lira` finds with its defaults on boosted trees beside the method chosen beforehand."""
    parts = []
    for row in result["summary"]:
        if (row["library"], row["model"]) == ("epsilens", "boosted trees"):
            usual = named(
                result["rows"],
                table=row["table"],
                model=row["model"],
                library="epsilens",
                method="LiRA offline, a spread for each record",
            )
            mean = sum(usual["tpr_1"]) / len(usual["tpr_1"])
            parts.append(
                f"{row['table']} {percent(mean, 1)} instead of {percent(row['tpr_1']['mean'], 1)}"
            )
    return "; ".join(parts)


def facts(results: Results) -> dict[str, str]:
    """Return what the page of comparisons shows."""
    speed, loo = results["whatif-speed"], results["loo"]["speed"]
    summary, audit, ridge = speed["summary"], results["one-run"], results["ridge"]
    dp_sgd, attack = results["dp-sgd-speed"], results["attack-peers"]

    def ratio(name: str) -> str:
        return measured(named(speed["rows"], name=name)["ratio_to_ours"]["cpu"], 1)

    over = [
        bound_means(point)["P3", ours] / bound_means(point)["P3", theirs]
        for point in audit["points"]
        for ours, theirs in (("approximate", "jax one-run"), ("f-dp", "jax f-DP"))
    ]
    wine, large = "wine quality", "generated, 20,000 × 5"
    last = {
        c["method"]: c["median"]
        for c in ridge["cells"]
        if c["table"] == large and c["rho"] == max(cell["rho"] for cell in ridge["cells"])
    }
    return {
        "versions": _versions(results, ages.read()),
        "influence": _influence(speed),
        "opacus": _opacus(dp_sgd),
        "jax": _jax(audit),
        "diffprivlib": _diffprivlib(ridge),
        "solvers": _solvers(results["inverse-hessian"]),
        "n": f"{speed['n_train']:,}",
        "p": str(speed["n_parameters"]),
        "cells": str(speed["cells"]),
        "pyinfluence_fast": measured(summary["fastest_peer"]["ratio"]),
        "pyinfluence_training": measured(summary["fastest_peer_with_training"]),
        "pyinfluence_scores": ratio("pyinfluence, its scores"),
        "pydvl_direct": ratio("pyDVL, direct"),
        "pydvl_cg": ratio("pyDVL, conjugate gradient"),
        "loo_second": measured(
            named(loo["rows"], name="epsilens, logistic, second order")["ratio_to_fastest_peer"]
        ),
        "first_error": f"{100 * loo['summary']['epsilens, logistic, first order, error']:.0f}",
        "jax_ratio": span(over),
        "jax_peer": audit["peer"],
        "jax_points": str(len(audit["points"])),
        "opacus_logistic": f"{fastest_opacus(dp_sgd, 'logistic')['times_ours']:.0f}",
        "opacus_network": f"{fastest_opacus(dp_sgd, '64-128-10 network')['times_ours']:.0f}",
        "opacus_version": dp_sgd["opacus"],
        "opacus_records": f"{dp_sgd['n_records']:,}",
        "diffprivlib_version": ridge["diffprivlib"],
        "diffprivlib_last": f"{last['diffprivlib, ε(δ)']:.4f}",
        "adassp_last": f"{last['AdaSSP']:.4f}",
        "ridge_last": f"{last['tight']:.4f}",
        "adaptive_repeats": str(ridge["repeats"]),
        "bottomless": _bottomless(ridge, wine, large),
        "wine_shares": _noised(WINE_COLUMNS),
        "large_shares": _noised(GENERATED_COLUMNS),
        "privacy_meter": PRIVACY_METER,
        "attacks": _attacks(attack),
        "attack_shadows": str(attack["shadows"]),
        "attack_targets": str(attack["targets"]),
        "sacro_version": attack["versions"]["SACRO-ML"],
        "sacro_verdict": _attack_verdict(attack, "SACRO-ML"),
        "leakpro_version": attack["versions"]["LeakPro"],
        "leakpro_verdict": _attack_verdict(attack, "LeakPro"),
        "leakpro_auc": _attack_auc(attack, "LeakPro"),
        "attack_default": _attack_default(attack),
        "averaging": _averaging(results["federated"]),
    }
