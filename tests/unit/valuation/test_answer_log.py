# SPDX-License-Identifier: Apache-2.0
"""The count of scores: before the answer, in a file, and once for the same request."""

from __future__ import annotations

import stat

import numpy as np
import pytest

from epsilens.errors import BudgetExceededError, InputError
from epsilens.valuation import AnswerBook, default_limit, n_coefficients


def scores(n: int = 3):
    return lambda: np.arange(float(n))


def test_the_default_is_half_of_what_determines_the_gradient_and_a_tenth_of_all():
    for p in range(2, 300):
        assert default_limit(p) <= p / 2
        assert default_limit(p) <= max(1, 0.1 * n_coefficients(p))


def test_the_limit_holds_for_each_provider_and_after_a_restart(tmp_path):
    file = tmp_path / "answers.sqlite"
    book = AnswerBook(file, n_parameters=30, limit=7, limit_in_all=20)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    book.answer("A", 3, b"one", scores())
    book.answer("A", 3, b"two", scores())
    book.answer("B", 7, b"B's", scores(7))
    for opened in (book, AnswerBook(file, n_parameters=30, limit=7, limit_in_all=20)):
        with pytest.raises(
            BudgetExceededError, match=r"may get 7 scores .* has got 6, and asks for 3"
        ):
            opened.answer("A", 3, b"three", scores())
        assert opened.given_to("A") == 6
    opened.answer("A", 1, b"three", scores(1))
    with pytest.raises(BudgetExceededError):
        opened.answer("A", 1, b"four", scores(1))


def test_a_tester_that_dies_while_answering_has_counted(tmp_path):
    file = tmp_path / "answers.sqlite"

    def dies():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        AnswerBook(file, n_parameters=30, limit=5).answer("A", 3, b"one", dies)
    book = AnswerBook(file, n_parameters=30, limit=5)
    assert book.given_to("A") == 3
    # The same request is answered now, and not counted twice; afterwards nothing is computed again.
    assert book.answer("A", 3, b"one", scores()).tolist() == [0.0, 1.0, 2.0]
    assert book.answer("A", 3, b"one", dies).tolist() == [0.0, 1.0, 2.0]
    assert book.given_to("A") == 3


def test_several_providers_together_may_have_a_limit_too(tmp_path):
    book = AnswerBook(tmp_path / "a", n_parameters=30, limit=5, limit_in_all=7)
    book.answer("A", 5, b"one", scores(5))
    with pytest.raises(BudgetExceededError, match=r"all providers may get 7 .* have got 5"):
        book.answer("B", 3, b"two", scores())


@pytest.mark.parametrize("limit", [None, 7])
def test_names_that_a_coordinator_invents_get_no_more_scores_together(tmp_path, limit):
    book = AnswerBook(tmp_path / "a", n_parameters=30, limit=limit)
    most, got = limit or default_limit(30), 0
    for k in range(20):
        left = book.left(f"site {k}")
        assert left == most - got
        if left < 3:
            break
        book.answer(f"site {k}", 3, b"%d" % k, scores())
        got += 3
    with pytest.raises(BudgetExceededError, match=rf"all providers may get {most} scores"):
        book.answer("site 99", 3, b"99", scores())
    assert most - 3 < got <= most < 30
    # What the tester allows each of them is not what it allows all of them.
    assert AnswerBook(tmp_path / "b", n_parameters=30, limit=9, limit_in_all=4).left("A") == 4


def test_noise_of_a_stated_scale_instead_of_a_limit(tmp_path):
    book = AnswerBook(tmp_path / "a", n_parameters=2, noise=0.1)
    assert book.limit is None
    noise = book.answer("A", 4000, b"one", lambda: np.zeros(4000))
    # The standard deviation of 4,000 numbers is off by 1.1 %; five of those.
    assert noise.std() == pytest.approx(0.1, rel=0.056)
    # Under another name the same request gets the same noise: nothing is averaged away.
    for name in ("A", "B"):
        assert book.answer(name, 4000, b"one", lambda: np.zeros(4000)).tolist() == noise.tolist()


def test_a_file_that_is_no_count_is_said(tmp_path):
    (tmp_path / "letter.txt").write_text("Dear hospital, " * 500)
    with pytest.raises(InputError, match=r"'letter.txt' cannot be read"):
        AnswerBook(tmp_path / "letter.txt", n_parameters=3)
    with pytest.raises(InputError, match="'a' cannot: FileNotFoundError"):
        AnswerBook(tmp_path / "no folder" / "a", n_parameters=3)
