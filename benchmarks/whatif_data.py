#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""P1's data sets and how well its models do on them without noise (P1 Table II).

The models are those of the other what-if benchmarks: converged, with the same seeds and test records.
Precision and recall are means over the classes, as P1's numbers seem to be.

    python benchmarks/whatif_data.py [--data DIR] [--quick]
"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import accuracy_score, precision_score, recall_score

from epsilens import WhatIf
from measure import arguments, run, write
from p1 import TABLE_2, adult_study, pubcov_study
from whatif_mnist import mnist_study

STUDIES = {"adult": adult_study, "acs_pubcov": pubcov_study, "mnist": mnist_study}
NAMES = {"adult": "Adult", "acs_pubcov": "PubCov", "mnist": "MNIST 1, 3, 7, 8"}


def scores(study: WhatIf) -> dict[str, float]:
    """Return accuracy, precision and recall on the test records, each with how many there are."""
    baseline = study.baseline_
    evaluation = baseline.evaluation
    predictor = np.asarray(evaluation.design.predict(baseline.theta))
    is_binary = predictor.shape[1] == 1
    guessed = (predictor[:, 0] > 0).astype(int) if is_binary else predictor.argmax(axis=1)
    truth = np.asarray(evaluation.y).astype(int)
    return {
        "n_test": len(truth),
        "n_classes": len(np.unique(truth)),
        "accuracy": float(accuracy_score(truth, guessed)),
        "precision": float(precision_score(truth, guessed, average="macro")),
        "recall": float(recall_score(truth, guessed, average="macro")),
    }


def main() -> None:
    settings = arguments(__doc__.splitlines()[0])
    rows = []
    for name, study_of in STUDIES.items():
        # A generator each, begun as the benchmark of that name begins: the same split.
        study, _ = study_of(settings, np.random.default_rng(settings.seed))
        rows.append(
            {
                "data": name,
                "n_train": int(study.baseline_.problem.design.matrix.shape[0]),
                "n_parameters": int(study.baseline_.problem.n_parameters),
                **scores(study),
            }
        )
    lines = [
        "P1's numbers in brackets; per cent of the test records, precision and recall as means over the classes.",
        "",
        "| data | to train on | to test on | parameters | accuracy | precision | recall |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        printed = TABLE_2[row["data"]]
        shown = (
            f"{100 * row[what]:.1f} ({printed[what]})"
            for what in ("accuracy", "precision", "recall")
        )
        counts = (f"{row[what]:,}" for what in ("n_train", "n_test", "n_parameters"))
        lines.append("| " + " | ".join((NAMES[row["data"]], *counts, *shown)) + " |")
    write("whatif-data", settings, "\n".join(lines), rows, {"seed": settings.seed})


if __name__ == "__main__":
    run(main)
