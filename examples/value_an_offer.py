# SPDX-License-Identifier: Apache-2.0
"""Two clinics offer a hundred records each. What are they worth to our model, and who should be paid what?

    python examples/value_an_offer.py

The second clinic has its answers the wrong way round, to see whether the scores notice.
"""

from __future__ import annotations

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epsilens.data import load_survey
from epsilens.valuation import add_one, correct_batch, share_payment

FEE = 1000.0


def main() -> None:
    survey = load_survey().sample(frac=1, random_state=0, ignore_index=True)
    answers = survey.pop("affair")
    ours, test = slice(0, 300), slice(300, 2300)
    clinics = {"first": slice(2300, 2400), "second": slice(2400, 2500)}
    answers[clinics["second"]] = answers[clinics["second"]].map({"yes": "no", "no": "yes"})

    model = make_pipeline(StandardScaler(), LogisticRegression())
    for name, rows in clinics.items():
        scores = add_one(
            model,
            *(survey[ours], answers[ours]),
            *(survey[rows], answers[rows]),
            *(survey[test], answers[test]),
        )
        # Records of one batch say partly the same: their sum is more than the batch is worth.
        batch = correct_batch(scores, q=300)
        print(
            f"{name} clinic: the test loss would fall by {batch.corrected.sum():+.4f} nats, "
            f"{(scores < 0).sum()} of {len(scores)} records would harm"
        )
        if batch.corrected.sum() > 0:
            fees = share_payment(scores, FEE)
            print(f"  its best record earns {fees.max():.0f} of {FEE:.0f}, harmful ones nothing")


if __name__ == "__main__":
    main()
