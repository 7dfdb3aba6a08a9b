# SPDX-License-Identifier: Apache-2.0
"""One-run bounds of jax_privacy for scores that are given.

The problem is an .npz with delta, level and, for every audit NAME, `NAME.included` and `NAME.scores`;
the answer is JSON: version, and for every audit its bounds by their settings.

    python audit_with_jax_privacy.py --problem FILE.npz --out FILE.json
"""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
from jax_privacy.auditing import Bonferroni, CanaryScoreAuditor, Explicit, Split

SHARES = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.975)
"""Explicit thresholds: such quantiles of all scores, which are fixed before it is known who was in."""


def bounds(
    included: np.ndarray, scores: np.ndarray, delta: float, level: float
) -> dict[str, float]:
    """Return its bounds, by bound and choice of thresholds; its default is Bonferroni."""
    auditor = CanaryScoreAuditor(scores[included], scores[~included])
    choices = {"": Bonferroni(), ", Split": Split(seed=0)} | {
        f", Explicit at {share:g}": Explicit(float(np.quantile(scores, share))) for share in SHARES
    }
    both = {
        "jax one-run": auditor.epsilon_one_run,
        "jax f-DP": auditor.epsilon_one_run_fdp,
    }
    found = {
        f"{name}{choice}": float(
            bound(significance=level, delta=delta, threshold_strategy=strategy)
        )
        for name, bound in both.items()
        for choice, strategy in choices.items()
    }
    found["jax GDP"] = float(auditor.epsilon_from_gdp(significance=level, delta=delta))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="One-run bounds of jax_privacy.")
    parser.add_argument("--problem", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    settings = parser.parse_args()
    with np.load(settings.problem) as arrays:
        names = [name.removesuffix(".scores") for name in arrays.files if name.endswith(".scores")]
        delta, level = float(arrays["delta"]), float(arrays["level"])
        found = {
            name: bounds(arrays[f"{name}.included"], arrays[f"{name}.scores"], delta, level)
            for name in names
        }
    answer = {
        "library": "jax_privacy",
        "version": version("jax-privacy"),
        "python": platform.python_version(),
        "bounds": found,
    }
    settings.out.write_text(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
