# SPDX-License-Identifier: Apache-2.0
"""A csv in, a recommended ε and a report out.

    python examples/choose_epsilon.py                              # the survey that comes with epsilens
    python examples/choose_epsilon.py patients.csv smokes no yes   # a file, its label, the possible answers

The answers are named here and not looked up in the file: that would give away which of them occur.
"""

from __future__ import annotations

import sys

import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from epsilens import WhatIf
from epsilens.data import load_survey
from epsilens.decision import decide
from epsilens.risk import AttackStudy
from epsilens.show import write_report

EPSILONS = [0.5, 1, 2, 4]
LOSS = 0.02  # nats that can be borne: true answers get 2 % less probability


def main() -> None:
    if len(sys.argv) > 1:
        file, label, *answers = sys.argv[1:]
        table = pd.read_csv(file, dtype={label: str}).dropna()
    else:
        table, label, answers = load_survey(), "affair", ["no", "yes"]
    if unnamed := (~table[label].isin(answers)).sum():
        sys.exit(f"{unnamed} rows have an answer that was not named: name all possible ones.")
    y = table.pop(label).astype(pd.CategoricalDtype(answers))
    X, X_test, y, y_test = train_test_split(table, y, stratify=y, random_state=0)

    words = make_column_selector(dtype_exclude="number")
    encoder = OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False)
    model = make_pipeline(
        make_column_transformer((encoder, words), remainder=StandardScaler()), LogisticRegression()
    )

    cost = WhatIf(model).fit(X, y, X_test, y_test).estimate(protect=[label], epsilon=EPSILONS)
    attacks = AttackStudy(model).fit(X, y, X_test, y_test)
    risk = attacks.estimate(protect=[label], epsilon=EPSILONS, shadow_models=64)
    decision = decide(cost, risk, max_loss_increase=LOSS)

    print(cost.to_frame()[["epsilon", "loss_change", "loss_change_low", "loss_change_high"]])
    print(risk.to_frame()[["epsilon", "answer_inference_rate", "answer_inference_ceiling"]])
    print(decision.recommendation.sentence, *decision.recommendation.details)
    print("Open", write_report(decision.document, "report.html"))


if __name__ == "__main__":
    main()
