#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""What curious parties of a valuation find out, alone and in pairs, within the default limits and beyond.

A logistic model of 2,000 generated records, 500 test records. First the tester's statistics: moves and
their scores are solved for gradient and Hessian. Then the provider's records: where features are 0 or 1,
whoever knows what the tester measures with, and H, tries every record that there can be.

    python benchmarks/valuation_attacks.py [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from epsilens.models import LogisticLoss
from epsilens.valuation import (
    AnswerBook,
    ItemTester,
    ModelForProvider,
    Yardstick,
    default_limit,
    item_moves,
    n_coefficients,
    offer_batch,
    round_scores,
    score_items,
)
from measure import run as run_benchmark
from private_valuation import problem
from timing import keep

LOSS = LogisticLoss()
ERROR = 4e-7
"""Of the encryption, as a share of the largest score: as the self-test measures it."""
D, N_TRAIN, N_TEST, N_ITEMS = 30, 2000, 500, 100


# --- The tester's statistics ---


def solve_gradient(moves: np.ndarray, scores: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the shortest gradient, in units of each coefficient, that explains scores of added records."""
    return np.linalg.lstsq(moves / scale, -scores, rcond=None)[0]


def solve_all(moves: np.ndarray, scores: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the shortest gradient and Hessian together that explain the scores; the gradient of it."""
    s = moves / scale
    i, j = np.triu_indices(s.shape[1])
    # Both parts of one size: a move is about 1/N of a unit.
    weight = 1 / np.abs(s).mean()
    rows = np.hstack([s, weight * s[:, i] * s[:, j] * np.where(i == j, 0.5, 1.0)])
    return np.linalg.lstsq(rows, -scores, rcond=None)[0][: s.shape[1]]


def unknown_share(found: np.ndarray, stick: Yardstick, scale: np.ndarray) -> float:
    """Return how much of the gradient's length is not found."""
    truth = scale * stick.gradient
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def statistics(seed: int) -> list[dict]:
    """Solve for the tester's gradient from so many scores, by those who know the moves."""
    model, stick, X, y = problem(D, seed, n_items=1000)
    moves, scale = item_moves(model, X, y, LOSS), model.scale
    scores = round_scores(stick.worth(moves), error=ERROR).scores
    rows = []
    for n in (default_limit(D), D - 1, D, n_coefficients(D), len(X)):
        solve = solve_gradient if n <= D else solve_all
        found = solve(moves[:n], scores[:n], scale)
        rows.append(
            {
                "who": "provider and coordinator",
                "n_scores": n,
                "unknown": unknown_share(found, stick, scale),
            }
        )
    # The coordinator alone, with moves that no record makes: one coefficient at a time.
    n = default_limit(D)
    made = np.diag(scale)[:n] / model.n_records
    said = np.array([round_scores(stick.worth(move[None])).scores[0] for move in made])
    found = solve_gradient(made, said, scale)
    rows.append(
        {
            "who": "coordinator, with providers and moves that it invents",
            "n_scores": n,
            "unknown": unknown_share(found, stick, scale),
        }
    )
    return rows


# --- The provider's records ---


def binary_problem(n_features: int, seed: int) -> tuple:
    """Return a model of features that are 0 or 1, a tester's statistics and a provider's records."""
    rng = np.random.default_rng([seed, n_features])
    n, d = N_TRAIN + N_TEST + N_ITEMS, n_features + 1
    X = np.ones((n, d))
    X[:, :-1] = rng.random((n, n_features)) < rng.uniform(0.2, 0.8, n_features)
    truth = rng.normal(size=d) * np.sqrt(6 / d)
    y = (X @ truth - truth.sum() / 2 + rng.logistic(size=n) > 0).astype(float)
    own, theta = X[:N_TRAIN], np.zeros(d)
    for _ in range(25):
        p = 1 / (1 + np.exp(-own @ theta))
        hessian = (own * (p * (1 - p))[:, None]).T @ own / N_TRAIN + 1e-3 * np.eye(d)
        gradient = own.T @ (p - y[:N_TRAIN]) / N_TRAIN + 1e-3 * theta
        theta = theta - np.linalg.solve(hessian, gradient)
    model = ModelForProvider(theta, np.linalg.inv(hessian), N_TRAIN)
    test = slice(N_TRAIN, N_TRAIN + N_TEST)
    stick = Yardstick.of(model.for_tester(), X[test], y[test], LOSS)
    return model, stick, X[test.stop :], y[test.stop :]


def candidates(n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return every record that there can be."""
    codes = np.arange(2 ** (n_features + 1))
    bits = ((codes[:, None] >> np.arange(n_features)) & 1).astype(float)
    return np.column_stack([bits, np.ones(len(codes))]), (codes >> n_features).astype(float)


def exchanged(
    model: ModelForProvider, stick: Yardstick, X: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Return the scores of a real exchange under encryption."""
    home = Path(tempfile.mkdtemp())
    book = AnswerBook(home / "answers.sqlite", n_parameters=len(model.theta), limit=len(X))
    notice = model.for_tester()
    tester = ItemTester(notice, stick, key_file=home / "secret.key", answers=book)
    reply = score_items(model, tester.question(), X, y, LOSS)
    return tester.answer(reply, provider="A").scores


def share_of_records(
    model: ModelForProvider,
    guess: Yardstick,
    scores: np.ndarray,
    X: np.ndarray,
    y: np.ndarray,
    n_features: int,
) -> float:
    """Return how many records are the candidate whose score is nearest to theirs."""
    everyone, labels = candidates(n_features)
    worth = guess.worth(item_moves(model, everyone, labels, LOSS))
    order = np.argsort(worth)
    place = np.clip(np.searchsorted(worth[order], scores), 1, len(worth) - 1)
    below, above = order[place - 1], order[place]
    nearer = np.where(np.abs(worth[below] - scores) <= np.abs(worth[above] - scores), below, above)
    right = (everyone[nearer] == X).all(axis=1) & (labels[nearer] == y)
    return float(right.mean())


def records(n_features: int, seed: int) -> dict:
    """Find records from their scores: by an honest question, and by one that was made for it."""
    model, stick, X, y = binary_problem(n_features, seed)
    honest = exchanged(model, stick, X, y)
    # Numbers that tell records apart: with u = Hb the move u·δ is b·x times a factor of the record.
    weights = 2.0 ** np.arange(n_features + 1)
    made = Yardstick(
        np.linalg.solve(model.inverse_hessian, weights), np.zeros_like(stick.hessian), 1
    )
    chosen = exchanged(model, made, X, y)
    # The tester alone knows √(H⁻¹)_ii; its own Hessian is the best it has for the rest.
    own = np.linalg.inv(stick.hessian + 1e-3 * np.eye(len(model.theta)))
    blind = ModelForProvider(model.theta, own, model.n_records)
    return {
        "n_features": n_features,
        "n_candidates": 2 ** (n_features + 1),
        "tester_alone": share_of_records(blind, stick, honest, X, y, n_features),
        "tester_and_coordinator": share_of_records(model, stick, honest, X, y, n_features),
        "question_made_for_it": share_of_records(model, made, chosen, X, y, n_features),
    }


def subtraction(seed: int) -> dict:
    """Take a move from that of the same batch with one record more."""
    model, _, X, y = problem(D, seed)
    sums = []
    for n in (len(X) - 1, len(X)):
        move = offer_batch(model, X[:n], y[:n], LOSS, method="first-order").move
        sums.append(model.n_records * np.linalg.solve(model.inverse_hessian, move))
    found = sums[1] - sums[0]
    cosine = found @ X[-1] / np.linalg.norm(found) / np.linalg.norm(X[-1])
    return {"cosine": float(abs(cosine))}


# --- Words ---


def words(found: dict) -> list[str]:
    """Return the tables."""
    rows = found["statistics"]
    return [
        f"**The tester's gradient**, {D} numbers, solved from moves and rounded scores. What is left unknown of its "
        f"length, with the default limit of {default_limit(D)} scores and beyond it:",
        "",
        "| who | scores | unknown |",
        "|---|---|---|",
        *(f"| {r['who']} | {r['n_scores']:,} | {100 * r['unknown']:.1f} % |" for r in rows),
        "",
        f"**A provider's records**, features of 0 and 1, {N_ITEMS} items of one exchange under encryption: how many are "
        "the possible record whose score is nearest.",
        "",
        "| features | possible records | tester alone, with its own Hessian for H | tester and coordinator | a question made "
        "for it, by tester and coordinator or by a coordinator under its own key |",
        "|---|---|---|---|---|",
        *(
            f"| {r['n_features']} | {r['n_candidates']:,} | {100 * r['tester_alone']:.0f} % "
            f"| {100 * r['tester_and_coordinator']:.0f} % | {100 * r['question_made_for_it']:.0f} % |"
            for r in found["records"]
        ),
        "",
        "**A batch**: from two moves at one model, of batches that differ by a record, the coordinator has that record up "
        f"to a factor (cosine {found['subtraction']['cosine']:.6f}).",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="not used: the records are generated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    settings = parser.parse_args()
    widths = (4,) if settings.quick else (4, 8, 12, 16)
    with threadpool_limits(1):
        found = {
            "statistics": statistics(settings.seed),
            "records": [records(n, settings.seed) for n in widths],
            "subtraction": subtraction(settings.seed),
        }
    keep("valuation-attacks", "\n".join(words(found)), found, is_quick=settings.quick)


if __name__ == "__main__":
    run_benchmark(main)
