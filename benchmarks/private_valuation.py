#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Scores of 100 items under encryption: seconds, bytes and error, for models of 10, 30 and 60 numbers.

A logistic model of 2,000 generated records, 500 test records, one thread. Beside it the obvious way: one
ciphertext an item, by TenSEAL's own dot product, whose other slots hold partial sums that the key's owner
could read. Every time is the least of three.

    python benchmarks/private_valuation.py [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from epsilens.models import LogisticLoss
from epsilens.valuation import (
    AnswerBook,
    ItemTester,
    ModelForProvider,
    Yardstick,
    item_moves,
    n_coefficients,
    offer_batch,
    score_items,
)
from epsilens.valuation.ckks import CkksParameters
from measure import run as run_benchmark
from timing import keep

N_TRAIN, N_TEST, N_ITEMS = 2000, 500, 100
WIDTHS = (10, 30, 60)
Found = TypeVar("Found")


def best(work: Callable[[], Found], repeats: int) -> tuple[Found, float]:
    """Return what the work gives and the least seconds it took."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - started)
    return found, min(seconds)


def problem(
    d: int, seed: int, *, n_items: int = N_ITEMS
) -> tuple[ModelForProvider, Yardstick, np.ndarray, np.ndarray]:
    """Return a trained model, a tester's statistics and a provider's items."""
    rng = np.random.default_rng([seed, d])
    X = rng.normal(size=(N_TRAIN + N_TEST + n_items, d))
    X[:, -1] = 1.0
    truth = rng.normal(size=d) * np.sqrt(3 / d)
    y = (X @ truth + rng.logistic(size=len(X)) > 0).astype(float)
    mine, theta, penalty = X[:N_TRAIN], np.zeros(d), 1e-3 * np.eye(d)
    for _ in range(25):
        p = 1 / (1 + np.exp(-mine @ theta))
        hessian = (mine * (p * (1 - p))[:, None]).T @ mine / N_TRAIN + penalty
        gradient = mine.T @ (p - y[:N_TRAIN]) / N_TRAIN + penalty @ theta
        theta = theta - np.linalg.solve(hessian, gradient)
    model = ModelForProvider(theta, np.linalg.inv(hessian), N_TRAIN)
    test = slice(N_TRAIN, N_TRAIN + N_TEST)
    stick = Yardstick.of(model.for_tester(), X[test], y[test], LogisticLoss())
    return model, stick, X[test.stop :], y[test.stop :]


def measure(d: int, *, seed: int, repeats: int) -> dict:
    """Run one exchange and say what it took."""
    model, stick, X, y = problem(d, seed)
    loss, notice = LogisticLoss(), model.for_tester()
    home = Path(tempfile.mkdtemp())

    def start() -> ItemTester:
        book = AnswerBook(home / "answers.sqlite", n_parameters=d, limit=1000)
        return ItemTester(notice, stick, key_file=home / "secret.key", answers=book)

    tester, start_seconds = best(start, repeats)
    question, ask_seconds = best(tester.question, repeats)
    reply, reply_seconds = best(lambda: score_items(model, question, X, y, loss), repeats)
    started = time.perf_counter()
    answer = tester.answer(reply, provider="A")
    answer_seconds = time.perf_counter() - started
    plain = stick.worth(item_moves(model, X, y, loss))
    error, largest = np.abs(answer.scores - plain), float(np.abs(plain).max())
    own = error / np.abs(plain)
    tenth, hundredth = np.abs(plain) >= 0.1 * largest, np.abs(plain) >= 0.01 * largest
    unit = answer.resolution
    batch = offer_batch(model, X, y, loss)
    return {
        "d": d,
        "n_coefficients": n_coefficients(d),
        "start_seconds": start_seconds,
        "ask_seconds": ask_seconds,
        "reply_seconds": reply_seconds,
        "answer_seconds": answer_seconds,
        "question_bytes": question.n_bytes,
        "reply_bytes": reply.n_bytes,
        "scores_bytes": answer.scores.nbytes,
        "error_of_largest": float(error.max()) / largest,
        "relative_error_above_a_tenth": float(own[tenth].max()),
        "n_above_a_tenth": int(tenth.sum()),
        "relative_error_above_a_hundredth": float(own[hundredth].max()),
        "n_above_a_hundredth": int(hundredth.sum()),
        "unit_of_largest": unit / largest,
        "self_test_error": tester.error,
        "n_last_digits_changed": int(
            np.sum(np.rint(plain / unit) != np.rint(answer.scores / unit))
        ),
        "batch_bytes": batch.move.nbytes,
    }


def one_by_one(d: int, *, seed: int, n_items: int) -> dict:
    """Do the same with a ciphertext an item."""
    import tenseal

    model, stick, X, y = problem(d, seed)
    s = N_TRAIN * item_moves(model, X, y, LogisticLoss())[:n_items]
    i, j = np.triu_indices(d)
    rows = np.hstack([-s, -s[:, i] * s[:, j] * np.where(i == j, 0.5, 1.0) / N_TRAIN])
    context = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[60, 40, 60], n_threads=1
    )
    context.global_scale = 2**40
    context.generate_galois_keys()
    public = context.serialize(save_secret_key=False, save_relin_keys=False)
    vector = tenseal.ckks_vector(context, np.concatenate([stick.gradient, stick.hessian[i, j]]))
    started = time.perf_counter()
    sent = [vector.dot(row.tolist()).serialize() for row in rows]
    seconds = time.perf_counter() - started
    per_item = N_ITEMS / n_items
    return {
        "one_by_one_seconds": seconds * per_item,
        "one_by_one_question_bytes": len(public) + len(vector.serialize()),
        "one_by_one_reply_bytes": int(sum(map(len, sent)) * per_item),
    }


def table(rows: list[dict]) -> list[str]:
    """Return the rows as a table."""
    return [
        "| d | numbers under encryption | tester starts, self-test included | asks | provider replies "
        "| tester answers | question | reply | one ciphertext an item |",
        "|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {r['d']} | {r['n_coefficients']:,} | {r['start_seconds']:.2f} s | {r['ask_seconds']:.2f} s "
            f"| {r['reply_seconds']:.2f} s | {r['answer_seconds']:.2f} s | {r['question_bytes'] / 1e6:.2f} MB "
            f"| {r['reply_bytes'] / 1e6:.2f} MB | {r['one_by_one_seconds']:.1f} s, {r['one_by_one_question_bytes'] / 1e6:.1f} + "
            f"{r['one_by_one_reply_bytes'] / 1e6:.1f} MB |"
            for r in rows
        ),
        "",
        "How far the scores that leave the tester are from plain ones, after rounding:",
        "",
        "| d | unit, of the largest score | error, of the largest score | of a score's own size, those above a "
        "tenth of the largest | those above a hundredth | last digits that the encryption changed |",
        "|---|---|---|---|---|---|",
        *(
            f"| {r['d']} | {r['unit_of_largest']:.0e} | {r['error_of_largest']:.1e} "
            f"| {r['relative_error_above_a_tenth']:.1e} ({r['n_above_a_tenth']} scores) "
            f"| {r['relative_error_above_a_hundredth']:.1e} ({r['n_above_a_hundredth']} scores) "
            f"| {r['n_last_digits_changed']} of {N_ITEMS} |"
            for r in rows
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="not used: the records are generated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part, not written down")
    settings = parser.parse_args()
    widths, repeats = ((10,), 1) if settings.quick else (WIDTHS, 3)
    n_items = 2 if settings.quick else N_ITEMS
    with threadpool_limits(1):
        rows = [
            measure(d, seed=settings.seed, repeats=repeats)
            | one_by_one(d, seed=settings.seed, n_items=n_items)
            for d in widths
        ]
    sizes = CkksParameters()
    text = [
        f"{N_ITEMS} items of a logistic model of {N_TRAIN:,} records, {N_TEST} test records, CKKS with "
        f"N = {sizes.degree}, {list(sizes.modulus_bits)} and scales 2^{sizes.scale_bits} and "
        f"2^{sizes.vector_scale_bits}, one core. One ciphertext an item is with [60, 40, 60] and 2^40.",
        "",
        *table(rows),
        "",
        "Six messages: each of question, reply and scores is asked for by the coordinator and comes back to it, "
        "the model with each. A batch instead of items is one move of "
        + ", ".join(f"{r['batch_bytes']}" for r in rows)
        + " bytes and one number.",
    ]
    keep(
        "private-valuation",
        "\n".join(text),
        {"n_items": N_ITEMS, "n_train": N_TRAIN, "n_test": N_TEST, "rows": rows},
        is_quick=settings.quick,
    )


if __name__ == "__main__":
    run_benchmark(main)
