# SPDX-License-Identifier: Apache-2.0
"""Scores under encryption: right, and nothing else comes across."""

from __future__ import annotations

import os
import stat
import struct
import sys
from dataclasses import astuple, replace

import numpy as np
import pytest

from epsilens.errors import (
    BudgetExceededError,
    EstimateNotTrustworthyError,
    InputError,
    MissingExtraError,
)
from epsilens.models import LogisticLoss, SoftmaxLoss
from epsilens.valuation import (
    AnswerBook,
    EncryptedScores,
    EncryptedYardstick,
    ItemTester,
    ModelForProvider,
    Yardstick,
    item_moves,
    score_items,
)
from epsilens.valuation.ckks import (
    DITHER,
    Ckks,
    CkksParameters,
    Layout,
    add_mask,
    multiply,
    read_secret_key,
)

LOSS = LogisticLoss()
N_ITEMS = 100


class Trio:
    """A coordinator's model, a tester's records and a provider's items."""

    def __init__(self, home, d: int, n_items: int, *, limit: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        unit = 10.0 ** rng.uniform(-3, 3, d)  # features in any unit
        unit[-1] = 1.0
        X = rng.normal(size=(2000 + 500 + n_items, d))
        X[:, -1] = 1.0
        truth = rng.normal(size=d) * np.sqrt(3 / d)
        X[-5:, :-1] += 4 * truth[:-1] / np.linalg.norm(truth[:-1])
        y = (X @ truth + rng.logistic(size=len(X)) > 0).astype(float)
        y[-5:] = 0.0  # planted: surely 1
        mine, theta, penalty = X[:2000], truth, 0.02 * np.eye(d)
        for _ in range(20):
            p = 1 / (1 + np.exp(-mine @ theta))
            hessian = (mine * (p * (1 - p))[:, None]).T @ mine / 2000 + penalty
            gradient = mine.T @ (p - y[:2000]) / 2000 + penalty @ theta
            theta = theta - np.linalg.solve(hessian, gradient)
        X, inverse = X * unit, np.linalg.inv(hessian) / np.outer(unit, unit)
        self.model = ModelForProvider(theta / unit, inverse, 2000)
        self.stick = Yardstick.of(self.model.for_tester(), X[2000:2500], y[2000:2500], LOSS)
        self.X, self.y, self.home, self.limit = X[2500:], y[2500:], home, limit
        self.tester = self.new_tester()
        self.question = self.tester.question()

    def new_tester(self, **options) -> ItemTester:
        book = AnswerBook(
            self.home / "answers.sqlite",
            n_parameters=self.stick.n_parameters,
            limit=self.limit,
            limit_in_all=2 * self.limit,
        )
        model, key = self.model.for_tester(), self.home / "secret.key"
        return ItemTester(model, self.stick, **({"key_file": key, "answers": book} | options))

    def reply(self, rows: slice = slice(None), **options) -> EncryptedScores:
        return score_items(self.model, self.question, self.X[rows], self.y[rows], LOSS, **options)

    def plain(self) -> np.ndarray:
        return self.stick.worth(item_moves(self.model, self.X, self.y, LOSS))


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Trio:
    return Trio(tmp_path_factory.mktemp("large"), 30, N_ITEMS, limit=2 * N_ITEMS)


@pytest.fixture(scope="module")
def large_reply(large) -> EncryptedScores:
    return large.reply()


@pytest.fixture(scope="module")
def large_scores(large, large_reply) -> np.ndarray:
    return large.tester.answer(large_reply, provider="A").scores


@pytest.fixture
def small(tmp_path) -> Trio:
    return Trio(tmp_path, 3, 6, limit=6)


def raw_slots(trio: Trio, reply: EncryptedScores) -> np.ndarray:
    """All that the tester could read if it looked beyond the scores."""
    room = Ckks(CkksParameters())
    secret, _ = read_secret_key(room, trio.home / "secret.key")
    cipher = room.load_ciphertext(reply.ciphertexts[0], what="a reply")
    return room.decrypt(cipher, secret)


def test_encrypted_scores_are_the_plain_ones(large, large_scores):
    plain = large.plain()
    error, largest = np.abs(large_scores - plain), np.abs(plain).max()
    # Half a unit of at most 2e-7 of the largest score, and the error of the encryption.
    assert error.max() <= 2e-7 * largest
    shown = np.abs(plain) >= 0.003 * largest
    assert shown.sum() > 80
    assert (error[shown] <= 1e-4 * np.abs(plain[shown])).all()


def test_rounded_scores_do_not_show_the_error_of_the_encryption(large, large_reply, large_scores):
    answer = large.tester.answer(large_reply, provider="A")  # as before, and not counted again
    assert 1e-9 < large.tester.error < 5e-8
    assert answer.resolution >= 10 * large.tester.error * np.abs(answer.scores).max() * (1 - 1e-9)
    apart = np.rint(large.plain() / answer.resolution) - np.rint(large_scores / answer.resolution)
    # An error of at most a tenth of the unit changes at most a last digit in ten, by one.
    assert np.abs(apart).max() <= 1
    assert np.count_nonzero(apart) <= 15


def test_planted_wrong_labels_have_the_worst_scores(large_scores):
    assert (large_scores[-5:] < 0).all()
    assert large_scores[-5:].mean() < np.quantile(large_scores, 0.05)


def test_a_hundred_items_come_back_in_one_ciphertext(large, large_reply):
    assert len(large_reply.ciphertexts) == 1
    assert large_reply.n_bytes < 260_000
    assert large.question.n_bytes < 5_000_000


def test_nothing_that_travels_is_secret_or_in_clear(large, large_reply, large_scores):
    room, key = Ckks(CkksParameters()), large.home / "secret.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    parts = [part for part in astuple(large.question) if isinstance(part, bytes)]
    parts += [*large.question.pieces, *large_reply.ciphertexts]
    for part in parts:
        stolen = large.home / "stolen.key"
        stolen.write_bytes(part)
        with pytest.raises(InputError, match="secret key must be readable"):
            room.load_secret_key(stolen)
    everything = b"".join(parts)
    assert key.read_bytes()[64:] not in everything
    moves = item_moves(large.model, large.X, large.y, LOSS)
    told = [large.stick.gradient, large.stick.hessian, large.X[:, :3], moves[:, :3], large_scores]
    for number in np.concatenate([np.ravel(array)[:40] for array in told]):
        assert struct.pack("<d", number) not in everything
    # Fields beside the ciphertexts are names and counts.
    assert [type(part) for part in astuple(large_reply)[:3]] == [str, str, int]
    assert "ciphertexts" not in repr(large_reply)


def test_slots_beyond_the_scores_hold_noise(large, large_reply, large_scores):
    slots = raw_slots(large, large_reply)
    beyond = slots[N_ITEMS:]
    noise = np.concatenate([beyond.real, slots.imag])
    # Uniform over ± 2^15: 12 bins, 8,092 numbers, five standard errors.
    # A slot beyond repeats a product, at most some dozens, under its mask.
    assert np.abs(noise).max() < 2**15 + 1000
    counts, _ = np.histogram(noise, bins=12, range=(-(2**15), 2**15))
    assert np.abs(counts - len(noise) / 12).max() < 5 * np.sqrt(len(noise) / 12)
    # Under the masks, slot i has the product of item i mod 128.
    place = np.arange(128, 4096)
    place = place[place % 128 < N_ITEMS]
    repeated = large_scores[place % 128]
    for part in (slots.real[place], slots.imag[place]):
        assert abs(np.corrcoef(part, repeated)[0, 1]) < 5 / np.sqrt(len(repeated))


def test_without_the_mask_the_slots_would_repeat_the_products(small):
    # The obvious twin of the encrypted product, and what the mask is there for.
    room = Ckks(CkksParameters())
    secret, _ = read_secret_key(room, small.home / "secret.key")
    rng = np.random.default_rng(1)
    for n_columns, n_rows in ((9, 8), (5000, 8), (495, 128)):  # the second is longer than the slots
        layout = Layout.of(n_columns, n_rows, room.parameters)
        vector, matrix = rng.uniform(-1, 1, n_columns), rng.normal(size=(n_rows, n_columns))
        pieces = [
            room.load_ciphertext(room.encrypt_with_secret_key(part, secret), what="a piece")
            for part in layout.slots(vector, 4096)
        ]
        assert len(pieces) == layout.n_pieces
        keys = room.load_rotation_keys(
            room.rotation_keys(secret, layout.rotations), layout.rotations
        )
        slots = room.decrypt(multiply(room, layout, pieces, matrix, keys), secret)
        # CKKS is off by about 1e-12 of the length of a row.
        found, length = slots.real.reshape(-1, n_rows), np.linalg.norm(matrix, axis=1)
        error = (found - matrix @ vector) / length
        assert np.abs(error).max() <= 1e-10
    # docs/private-valuation.md: the noise on a score, uniform, is thousands of times this error, which
    # comes from keys that are drawn anew at every run (2,900 to 5,600 in three).
    assert 1000 < DITHER / np.sqrt(3) / error.std() < 20_000


def test_every_product_carries_a_noise_of_its_own(small):
    room = Ckks(CkksParameters())
    secret, _ = read_secret_key(room, small.home / "secret.key")
    rng = np.random.default_rng(2)
    layout = Layout.of(9, 128, room.parameters)
    vector, matrix = rng.uniform(-1, 1, 9), rng.normal(size=(128, 9))
    pieces = [
        room.load_ciphertext(room.encrypt_with_secret_key(part, secret), what="a piece")
        for part in layout.slots(vector, 4096)
    ]
    keys = room.load_rotation_keys(room.rotation_keys(secret, layout.rotations), layout.rotations)
    products, length = multiply(room, layout, pieces, matrix, keys), np.linalg.norm(matrix, axis=1)
    add_mask(room, products, length, room.load_public_key(room.public_key(secret)))
    noise = (room.decrypt(products, secret).real[:128] - matrix @ vector) / length
    # Uniform within ±DITHER; the standard deviation of 128 is off by 4 %, and CKKS by a thousandth.
    assert np.abs(noise).max() < 1.01 * DITHER
    assert noise.std() == pytest.approx(DITHER / np.sqrt(3), rel=0.2)


def test_the_same_items_look_different_every_time(small):
    first, second = small.reply(), small.reply()
    assert first.ciphertexts != second.ciphertexts
    one, other = (
        np.frombuffer(r.ciphertexts[0][-100_000:], dtype=np.uint8) for r in (first, second)
    )
    assert (one == other).mean() < 0.05
    assert small.question.pieces != small.tester.question().pieces
    scores = small.tester.answer(first, provider="A").scores
    again = small.tester.answer(second, provider="B").scores
    # At most a last digit apart: units are at most 1.1e-5 of the largest.
    assert scores == pytest.approx(again, abs=1.1e-5 * np.abs(scores).max())


def test_scores_of_every_change_method_and_number_of_classes(tmp_path):
    rng, loss = np.random.default_rng(3), SoftmaxLoss(3)
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 3, 60).astype(float)
    model = ModelForProvider(
        rng.normal(size=6) / 3, np.linalg.inv(np.eye(6) / 5), 400, np.full(6, 0.1)
    )
    stick = Yardstick.of(model.for_tester(), X, y, loss)
    book = AnswerBook(tmp_path / "answers.sqlite", n_parameters=6, limit=60)
    tester = ItemTester(
        model.for_tester(), stick, key_file=tmp_path / "key", answers=book, resolution=1e-9
    )
    for change in ("add", "remove"):
        options = {"change": change, "method": "second-order"}
        reply = score_items(model, tester.question(), X[:10], y[:10], loss, **options)
        found = tester.answer(reply, provider="A")
        plain = stick.worth(item_moves(model, X[:10], y[:10], loss, **options), change=change)
        assert found.resolution == 1e-9
        assert found.scores == pytest.approx(plain, abs=1e-6 * np.abs(plain).max())


def test_parameters_that_compute_wrong_numbers_are_found_out(small):
    weak = CkksParameters(4096, (40, 20, 40), 20, 20)
    with pytest.raises(EstimateNotTrustworthyError, match="self-test of the encryption failed"):
        small.new_tester(parameters=weak, key_file=small.home / "weak.key")
    with pytest.raises(InputError, match="128-bit security"):
        Ckks(CkksParameters(4096, (60, 40, 60), 40))


def test_a_tester_that_starts_again_keeps_key_and_count(small):
    reply = small.reply()
    scores = small.tester.answer(reply, provider="A").scores
    again = small.new_tester(digits=9)
    # Asked twice: the same answer, counted once, and not a digit more.
    assert again.answer(reply, provider="A").scores.tolist() == scores.tolist()
    assert again.answers.given_to("A") == 6
    with pytest.raises(BudgetExceededError, match=r"may get 6 scores .* has got 6, and asks for 6"):
        again.answer(small.reply(), provider="A")
    assert again.answers.given_to("A") == 6
    # With another limit the scores lie in other slots: a reply to the old question is none to the new.
    small.limit = 40
    with pytest.raises(InputError, match="present question"):
        small.new_tester().answer(reply, provider="A")
    os.chmod(small.home / "secret.key", 0o644)
    with pytest.raises(InputError, match="readable by its owner only"):
        small.new_tester()


def test_what_is_damaged_foreign_or_too_large_is_refused_and_not_counted(small):
    reply, answer = small.reply(), small.tester.answer
    (good,) = reply.ciphertexts
    broken = [
        (good[:-7], "readable under the agreed parameters"),
        (b"\x00" * len(good), "readable under the agreed parameters"),
        (os.urandom(500), "readable under the agreed parameters"),
        (good + bytes(2_000_000), "must be at most .* bytes"),
        (b"", "must be at most .* bytes"),
        (small.question.pieces[0], "another kind of ciphertext"),
    ]
    for data, message in broken:
        with pytest.raises(InputError, match=message):
            answer(replace(reply, ciphertexts=(data,)), provider="A")
    with pytest.raises(InputError, match="must have 1 ciphertexts, got 2"):
        answer(replace(reply, ciphertexts=(good, good)), provider="A")
    with pytest.raises(InputError, match="present version of the model"):
        answer(replace(reply, model="0" * 32), provider="A")
    with pytest.raises(InputError, match="present question"):
        answer(replace(reply, key="0" * 32), provider="A")
    with pytest.raises(InputError, match="`n_items` must be at most"):
        replace(reply, n_items=10**9)
    assert small.tester.answers.given_to("A") == 0
    # A ciphertext under another key decrypts to numbers that no item can have; it was counted first.
    other = small.new_tester(key_file=small.home / "other.key")
    foreign = score_items(small.model, other.question(), small.X, small.y, LOSS)
    with pytest.raises(InputError, match="no item can have"):
        answer(replace(foreign, key=reply.key), provider="A")
    assert small.tester.answers.given_to("A") == 6


def test_a_provider_refuses_questions_that_are_not_as_agreed(small):
    question = small.question

    def ask(changed: EncryptedYardstick, *, signed: bool = True) -> None:
        asked = small.tester._signed(changed) if signed else changed
        score_items(small.model, asked, small.X, small.y, LOSS)

    # Who carries a question changes nothing of it, nor puts another in its place under the same name.
    other = small.new_tester(key_file=small.home / "other.key").question()
    for changed in (
        replace(question, key="0" * 32),
        replace(question, public_key=other.public_key),
        replace(question, pieces=other.pieces),
        replace(other, signer=question.signer),
        replace(question, signature=b"", signer=b""),
    ):
        with pytest.raises(InputError, match="was changed on its way"):
            ask(changed, signed=False)
    assert other.fingerprint != question.fingerprint == small.new_tester().question().fingerprint

    with pytest.raises(InputError, match="present version of the model"):
        ask(replace(question, model="0" * 32))
    with pytest.raises(InputError, match="a model of 3 numbers, got one for 4"):
        ask(replace(question, n_parameters=4))
    with pytest.raises(InputError, match="must have 1 ciphertexts, got 2"):
        ask(replace(question, pieces=question.pieces * 2))
    with pytest.raises(InputError, match="public key must be readable"):
        ask(replace(question, public_key=question.public_key[:1000]))
    with pytest.raises(InputError, match="rotation keys must be at most"):
        ask(replace(question, rotation_keys=bytes(10**8)))
    with pytest.raises(InputError, match="some are missing"):
        ask(replace(question, items_per_ciphertext=128))
    with pytest.raises(InputError, match="a power of two, got 3 and 12"):
        replace(question, items_per_ciphertext=12)
    with pytest.raises(InputError, match="further than can be scored"):
        score_items(small.model, question, 1e9 * small.X, small.y, LOSS, method="first-order")


def test_without_tenseal_the_command_that_installs_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "tenseal", None)
    with pytest.raises(MissingExtraError, match=r'pip install "epsilens\[secure\]"$'):
        Ckks(CkksParameters())
