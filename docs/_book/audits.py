# SPDX-License-Identifier: Apache-2.0
"""P3: one-run audits over ε, canaries and dimensions, and private ridge."""

from __future__ import annotations

from .bars import bound_means
from .results import Result, Results, plus_minus, span, table


def _sweep(result: Result, sweep: str, head: str) -> str:
    lines = []
    points = [point for point in result["points"] if point["sweep"] == sweep]
    # A truth that is the same in all rows stands in the prose.
    truth = len({point["true_epsilon"] for point in points}) > 1
    for point in points:
        found = {
            (row["scores"], row["bound"]): plus_minus(row["mean"], row["standard_error"])
            for row in point["bounds"]
        }
        lines.append(
            (
                f"{point[sweep]:,}",
                *([f"{point['true_epsilon']:.2f}"] if truth else []),
                found["P3", "as printed"],
                found["P3", "approximate"],
                found["P3", "jax one-run"],
                found["P3", "f-dp"],
                found["P3", "jax f-DP"],
                found["ours", "approximate"],
                found["ours", "f-dp"],
            )
        )
    return table(
        (
            head,
            *(["truth"] if truth else []),
            "P3's recipe (no bound)",
            "(ε, δ)",
            "jax_privacy one-run",
            "Gaussian family",
            "jax_privacy f-DP",
            "(ε, δ), our score",
            "Gaussian, our score",
        ),
        lines,
    )


def _coverage(result: Result) -> str:
    words = {"as_printed": "P3's, as printed", "path": "path", "default": "the usual"}
    rows = [
        row
        for row in result["rows"]
        if row["selection"] in words and row["method"] != "independent-gdp"
    ]
    return table(
        (
            "mechanism",
            "bound",
            "choice of guesses",
            "true ε",
            "wrong, % of audits",
            "claims to hold",
        ),
        (
            (
                row["channels"],
                row["method"],
                words[row["selection"]],
                f"{row['epsilon']:g}",
                f"{100 * row['rate']:.1f} ± {100 * row['standard_error']:.1f}",
                "yes" if row["claims_to_hold"] else "no",
            )
            for row in rows
        ),
    )


def _ridge(result: Result, name: str) -> str:
    cells = {(c["method"], c["rho"]): c for c in result["cells"] if c["table"] == name}
    methods = ("tight", "P3's bound", "AdaSSP", "diffprivlib, ε(δ)")
    levels = sorted({rho for _, rho in cells})

    def shown(method: str, rho: float) -> str:
        cell = cells[method, rho]
        if cell["standard_error"] > cell["median"]:
            return f"median {cell['median']:.3g}"
        return f"{cell['loss']:.4f} ± {cell['standard_error']:.4f}"

    return table(
        (
            "ρ",
            "ε at δ",
            "noise by the tight bound",
            "by P3's bound",
            "AdaSSP",
            "diffprivlib at the same ε",
        ),
        (
            (
                f"{rho:.3g}",
                f"{cells['tight', rho]['epsilon']:.3g}",
                *(shown(method, rho) for method in methods),
            )
            for rho in levels
        ),
    )


def facts(results: Results) -> dict[str, str]:
    """Return what the page of P3 shows."""
    result, coverage, ridge = results["one-run"], results["audit-coverage"], results["ridge"]
    printed = [row for row in coverage["rows"] if row["selection"] == "as_printed"]
    last = [point for point in result["points"] if point["sweep"] == "epsilon"][-1]
    means = bound_means(last)
    shares = [
        bound_means(point)["ours", "f-dp"] / point["true_epsilon"]
        for point in result["points"]
        if point["sweep"] == "epsilon"
    ]
    canaries = [point for point in result["points"] if point["sweep"] == "canaries"]

    def best(scores: str) -> Result:
        return max(canaries, key=lambda point: bound_means(point)[scores, "approximate"])

    saving = [
        next(
            c["loss"]
            for c in ridge["cells"]
            if (c["table"], c["method"], c["rho"]) == (cell["table"], "P3's bound", cell["rho"])
        )
        / cell["loss"]
        - 1
        for cell in ridge["cells"]
        if cell["method"] == "tight"
    ]
    names = list(ridge["baselines"])
    return {
        "over_epsilon": _sweep(result, "epsilon", "ε"),
        "over_canaries": _sweep(result, "canaries", "m"),
        "over_dimension": _sweep(result, "dimension", "d"),
        "coverage": _coverage(coverage),
        "printed_wrong": span((100 * row["rate"] for row in printed), ".0f"),
        "audits": f"{printed[0]['audits']:,}",
        "delta": f"{result['delta']:g}",
        "peer": result["peer"],
        "truth_last": f"{last['true_epsilon']:.1f}",
        "nominal_last": f"{last['epsilon']:g}",
        "printed_last": f"{means['P3', 'as printed']:.2f}",
        "bound_last": f"{means['ours', 'approximate']:.2f}",
        "f_dp_last": f"{means['ours', 'f-dp']:.2f}",
        "f_dp_share": span((100 * share for share in shares), ".0f"),
        "best_m_p3": f"{best('P3')['canaries']:,}",
        "best_m_ours": f"{best('ours')['canaries']:,}",
        "ridge_tables": "\n\n".join(
            f"**{name}**: without noise {ridge['baselines'][name]['no noise']:.4f}, "
            f"the mean of the target {ridge['baselines'][name]['the mean']:.4f}.\n\n{_ridge(ridge, name)}"
            for name in names
        ),
        "ridge_repeats": str(ridge["repeats"]),
        "ridge_delta": f"{ridge['delta']:g}",
        "ridge_saving": span((100 * share for share in saving), ".1f"),
        "ridge_valid": str(sum(audit["valid"] for audit in ridge["audits"])),
        "ridge_audits": str(len(ridge["audits"])),
        "diffprivlib": ridge["diffprivlib"],
    }
