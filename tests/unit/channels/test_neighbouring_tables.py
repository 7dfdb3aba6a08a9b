# SPDX-License-Identifier: Apache-2.0
"""Every small table, released with the same random words as each of its neighbours.

Two tables are neighbours if they differ in the protected answers of one row. With the same words the
two releases may differ in the reports of that row and nowhere else. With all words that there are,
the probability of no release may differ by more than a factor of e^ε.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from epsilens.channels import Budget
from epsilens.channels.draw import Words, generator_words
from epsilens.channels.release import Release, release_table
from epsilens.data import Bins

AGES = [44, 31, 58, 25]
TOWNS = ["Ulm", "Bonn", "Köln", "Ulm"]


def with_words(monkeypatch: pytest.MonkeyPatch, words: Words) -> None:
    """Let the next releases draw these words instead of the operating system's."""
    monkeypatch.setattr("epsilens.channels.release.released_words", lambda *_: words)


Codes = tuple[int, ...]
"""A table by the number of each row's answer: as values, 1 and True would be one answer."""


def all_tables(possible: list[object], n_rows: int) -> Iterator[tuple[Codes, list[object]]]:
    """Give every table, as codes and as answers."""
    for codes in itertools.product(range(len(possible)), repeat=n_rows):
        yield codes, [possible[code] for code in codes]


def neighbours(n_possible: int, n_rows: int) -> Iterator[tuple[Codes, Codes, int]]:
    """Give every pair of tables that differ in one row, and the row."""
    for one in itertools.product(range(n_possible), repeat=n_rows):
        for row in range(n_rows):
            for code in range(one[row] + 1, n_possible):
                yield one, (*one[:row], code, *one[row + 1 :]), row


def frame_of(answers: list[object]) -> pd.DataFrame:
    """Write a table as the command line gives it: answers as text, the row's other columns typed."""
    n_rows = len(answers)
    # The frame carries labels of the rows and a note, as frames of other programs do.
    frame = pd.DataFrame(
        {"age": AGES[:n_rows], "s": pd.Series(answers, dtype=object), "town": TOWNS[:n_rows]}
    )
    frame.index = pd.Index([f"row {row}" for row in range(n_rows)])
    frame.attrs = {"first": answers[0]}
    return frame


def seen(release: Release, columns: list[str]) -> tuple[str, list[str]]:
    """Give all of a release but its reports, and the reports of every row of the true table."""
    frame = release.frame
    elsewhere = (
        {str(name): frame[name].tolist() for name in frame.columns if name not in columns},
        [(str(name), str(frame[name].dtype)) for name in frame.columns],
        frame.index,
        frame.attrs,
        release.rows,
        release.shuffled,
        [(name, texts.dtype, texts.index) for name, texts in release.as_typed.items()],
        release.n_categories,
        release.missing_is_category,
        release.origin,
        release.bins,
        release.warnings,
        release.simulated,
    )
    written = [frame[name].tolist() for name in columns]
    written += [texts.tolist() for texts in release.as_typed.values()]
    reports = dict(zip(release.rows.tolist(), zip(*written, strict=True), strict=True))
    return repr(elsewhere), [repr(reports[row]) for row in range(len(frame))]


def assert_differ_in_one_row(
    one: tuple[str, list[str]], other: tuple[str, list[str]], row: int
) -> None:
    assert one[0] == other[0]
    assert [*one[1][:row], *one[1][row + 1 :]] == [*other[1][:row], *other[1][row + 1 :]]


@pytest.mark.parametrize("keep_order", [False, True])
@pytest.mark.parametrize(
    ("possible", "settings"),
    [
        (["no", "yes"], {"categories": {"s": ["no", "yes"]}}),
        (["no", "yes", None], {"categories": {"s": ["no", "yes"]}, "missing": "category"}),
        (["1", "2", "1.0"], {"categories": {"s": ["1", "2"]}}),
        (["1", "2", "x", None], {"categories": {"s": ["1", "2", "x"]}, "missing": "category"}),
        ([0.0, 7.5, math.inf], {"bins": {"s": Bins(2, 0.0, 10.0)}}),
        ([1, True, "True"], {"categories": {"s": ["1", "True"]}}),
    ],
)
@pytest.mark.filterwarnings("ignore::epsilens.errors.PrivacyLeakWarning")
def test_releases_with_the_same_words_differ_in_one_row(
    monkeypatch: pytest.MonkeyPatch,
    possible: list[object],
    settings: dict[str, object],
    keep_order: bool,
) -> None:
    for n_rows in range(1, 4 if len(possible) > 2 else 5):
        releases = {}
        for codes, answers in all_tables(possible, n_rows):
            with_words(monkeypatch, generator_words(np.random.default_rng(n_rows)))
            frame = frame_of(answers)
            if "bins" in settings:
                frame["s"] = frame["s"].astype(float)
            release = release_table(
                frame,
                budget=Budget({"s": 1.0}),
                keep_order=keep_order,
                **settings,  # type: ignore[arg-type]
            )
            releases[codes] = seen(release, ["s"])
        for one, other, row in neighbours(len(possible), n_rows):
            assert_differ_in_one_row(releases[one], releases[other], row)


@pytest.mark.parametrize("epsilon", [0.01, 3.0])
def test_a_sorted_table_and_its_neighbours_are_alike(
    monkeypatch: pytest.MonkeyPatch, epsilon: float
) -> None:
    # Ten people, sorted by the answer until one of them answers otherwise.
    answers = [*["no"] * 5, *["yes"] * 5]
    releases = []
    for row in range(-1, 10):
        changed = ["yes" if (row == i) != (a == "yes") else "no" for i, a in enumerate(answers)]
        with_words(monkeypatch, generator_words(np.random.default_rng(0)))
        release = release_table(
            pd.DataFrame({"s": changed}),
            budget=Budget({"s": epsilon}),
            categories={"s": ["no", "yes"]},
        )
        releases.append(seen(release, ["s"]))
    for row in range(10):
        assert_differ_in_one_row(releases[0], releases[row + 1], row)


def test_two_protected_columns_change_together_in_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    possible: list[object] = list(itertools.product(["no", "yes"], ["a", "b", None]))
    releases = {}
    for codes, pairs in all_tables(possible, 2):
        with_words(monkeypatch, generator_words(np.random.default_rng(5)))
        frame = frame_of([pair[0] for pair in pairs])  # type: ignore[index]
        frame["t"] = [pair[1] for pair in pairs]  # type: ignore[index]
        release = release_table(
            frame,
            budget=Budget({"s": 0.5, "t": 2.0}),
            categories={"s": ["no", "yes"], "t": ["a", "b"]},
            missing="category",
        )
        releases[codes] = seen(release, ["s", "t"])
    for one, other, row in neighbours(len(possible), 2):
        assert_differ_in_one_row(releases[one], releases[other], row)


class Scripted:
    """Words that are given: first one for the place of every row, then one for whether each lies.

    Whoever lies takes a last word, by which one of the other answers is chosen.
    """

    def __init__(self, places: tuple[int, ...], lies: tuple[int, ...], steps: tuple[int, ...]):
        self.calls = [places, lies]
        self.steps = steps

    def __call__(self, n: int) -> np.ndarray:
        if self.calls:
            given = self.calls.pop(0)
            assert len(given) == n
        else:
            given = self.steps[:n]
        return np.array(given, dtype=np.uint64)


@pytest.mark.parametrize(
    # A quarter of the words lie about two answers, half of them about three.
    ("k", "n_words", "factor"),
    [(2, 4, 3), (3, 2, 2)],
)
@pytest.mark.parametrize("n_rows", [1, 2])
def test_no_release_is_likelier_by_more_than_the_promised_factor(
    monkeypatch: pytest.MonkeyPatch, k: int, n_words: int, factor: int, n_rows: int
) -> None:
    # All words, in so many classes as matter: the middle of each stands for all of it.
    middles = [int((word + 0.5) * 2**64 / n_words) for word in range(n_words)]
    possible: list[object] = [str(answer) for answer in range(k)]
    scripts = list(
        itertools.product(
            itertools.permutations(range(n_rows)),
            itertools.product(middles, repeat=n_rows),
            itertools.product(range(k - 1), repeat=n_rows),
        )
    )
    chances = {}
    for codes, answers in all_tables(possible, n_rows):
        counts: Counter[object] = Counter()
        for script in scripts:
            with_words(monkeypatch, Scripted(*script))
            release = release_table(
                # The same town: only the order could tell two people apart.
                frame_of(answers).assign(age=40, town="Ulm"),
                budget=Budget({"s": math.log(factor)}),
                categories={"s": possible},  # type: ignore[dict-item]
            )
            counts[release.frame.to_csv()] += 1
        chances[codes] = {output: Fraction(n, len(scripts)) for output, n in counts.items()}
    largest = Fraction(0)
    for one, other, _ in neighbours(k, n_rows):
        assert chances[one].keys() == chances[other].keys()
        for output, chance in chances[one].items():
            ratio = chance / chances[other][output]
            largest = max(largest, ratio, 1 / ratio)
    assert largest <= factor
    # For one row the factor is reached: the test sees what it is about.
    assert n_rows > 1 or largest == factor
    # And nothing is left of the order: tables with the same rows have the same releases.
    for codes, outputs in chances.items():
        assert outputs == chances[tuple(sorted(codes))]
