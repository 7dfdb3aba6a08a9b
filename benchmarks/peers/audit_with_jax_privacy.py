# SPDX-License-Identifier: Apache-2.0
"""One-run bounds of jax_privacy for scores that are given.

The problem is an .npz with delta, level and, for every audit NAME, `NAME.included` and `NAME.scores`;
the answer is JSON: version, and for every audit its one-run bound and its f-DP bound.

    python audit_with_jax_privacy.py --problem FILE.npz --out FILE.json
"""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
from jax_privacy.auditing import CanaryScoreAuditor


def bounds(
    included: np.ndarray, scores: np.ndarray, delta: float, level: float
) -> dict[str, float]:
    """Return its two bounds, at its default choice of thresholds (Bonferroni)."""
    auditor = CanaryScoreAuditor(scores[included], scores[~included])
    return {
        "one_run": float(auditor.epsilon_one_run(significance=level, delta=delta)),
        "f_dp": float(auditor.epsilon_one_run_fdp(significance=level, delta=delta)),
    }


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
