# SPDX-License-Identifier: Apache-2.0
"""Scores of single items between parties that do not show each other anything.

One move of the model for each item would hand the coordinator every record up to scale. Instead the
tester encrypts what it measures with, the provider computes on the ciphertext, and the tester decrypts
scores and nothing else. The worth −ς(g·δ + ½δᵀHδ) is linear in (g, vech H), so one product under
encryption is enough.

Examples
--------
All three parties in one process; between them only the messages travel.

>>> import tempfile
>>> from pathlib import Path
>>> import numpy as np
>>> from epsilens.models import LogisticLoss
>>> loss, rng = LogisticLoss(), np.random.default_rng(0)
>>> X = np.column_stack([rng.normal(size=400), np.ones(400)])
>>> y = (X[:, 0] + rng.logistic(size=400) > 0).astype(float)
>>> theta, hessian = np.array([1.0, 0.0]), X.T @ X / 400 / 5 + 1e-3 * np.eye(2)

The coordinator: what it tells the two others.

>>> model = ModelForProvider(theta, np.linalg.inv(hessian), n_records=400)

The tester: a key, a count of answers, and a question that nobody else can read.

>>> home = Path(tempfile.mkdtemp())
>>> stick = Yardstick.of(model.for_tester(), X[:100], y[:100], loss)
>>> tester = ItemTester(model.for_tester(), stick, key_file=home / "secret.key",
...                     answers=AnswerBook(home / "answers.sqlite", n_parameters=2, limit=4))
>>> question = tester.question()

The provider: its records, the third with a wrong label.

>>> mine, labels = np.array([[1.5, 1.0], [-0.5, 1.0], [3.0, 1.0]]), np.array([1.0, 0.0, 0.0])
>>> reply = score_items(model, question, mine, labels, loss)

The tester again: scores, rounded, for the coordinator.

>>> scores = tester.answer(reply, provider="hospital 3").scores
>>> plain = stick.worth(item_moves(model, mine, labels, loss))
>>> bool(np.abs(scores - plain).max() <= 1e-4 * np.abs(plain).max()), bool(scores[2] < 0)
(True, True)
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from epsilens._types import FloatArray
from epsilens.errors import EstimateNotTrustworthyError, InputError
from epsilens.models import Loss
from epsilens.valuation.answer_log import DIGITS, AnswerBook, RoundedScores, round_scores
from epsilens.valuation.batch_exchange import require_same_model
from epsilens.valuation.ckks import (
    LARGEST,
    Ckks,
    CkksParameters,
    Layout,
    add_mask,
    multiply,
    power_of_two,
    read_secret_key,
)
from epsilens.valuation.item_messages import (
    MOST_ITEMS,
    MOST_PARAMETERS,
    MOST_ROWS,
    EncryptedScores,
    EncryptedYardstick,
    check_signature,
    public_half,
    signing_key,
    together,
)
from epsilens.valuation.model_moves import (
    SIGN,
    Change,
    ModelForProvider,
    ModelForTester,
    MoveMethod,
    Yardstick,
    item_moves,
    n_coefficients,
)

FEWEST_ROWS = 8
LARGEST_SELF_TEST_ERROR = 1e-5
"""Largest error of a product, as a share of the lengths of its factors; parameters that are too small exceed it by far."""


def score_items(
    model: ModelForProvider,
    question: EncryptedYardstick,
    X: FloatArray,
    y: FloatArray,
    loss: Loss,
    *,
    change: Change = "add",
    method: MoveMethod = "newton",
    parameters: CkksParameters | None = None,
) -> EncryptedScores:
    """Return the encrypted scores of a provider's items, for the tester whose question it is.

    The provider works out at home how the model would move with each item, and combines these moves
    with the tester's encrypted numbers. It sees neither those nor the scores.

    Parameters
    ----------
    model : ModelForProvider
    question : EncryptedYardstick
        Question of the tester.
    X : array of shape (m, d)
        Features as the model sees them, the constant column of an intercept included.
    y : array of shape (m,)
        Labels as the loss takes them.
    loss : Loss
    change : {"add", "remove"}
        Records that would come, or records of the model that would go.
    method : {"newton", "second-order", "first-order"}
    parameters : CkksParameters, optional
        Agreed beforehand: never taken from the message.

    Returns
    -------
    EncryptedScores

    Raises
    ------
    InputError
        If the question belongs to another model, was changed since it was signed, is damaged or too
        large, or an item would move the model beyond what can be encrypted.

    Notes
    -----
    With D = diag √(H⁻¹)_ii and s = Nδ/D the coefficients are −ς(s, ½ vech s sᵀ/√N), those outside the diagonal
    doubled, and the tester's vector is (Dg, vech DHD/√N) divided by its largest entry: their product is
    N times the score, and all numbers are of one size whatever the units of the features.

    Assumptions
    -----------
    The parties are honest but curious; what each pair of them could find out, and what is not proven of
    CKKS here, stands in docs/private-valuation.md.

    Examples
    --------
    See the head of this module.
    """
    check_signature(question.signer, question.signature, question.signed_parts())
    require_same_model(question.model, model.name)
    if question.n_parameters != model.n_parameters:
        raise InputError(
            f"the question must be for a model of {model.n_parameters} numbers, got one for "
            f"{question.n_parameters}."
        )
    moves = item_moves(model, X, y, loss, change=change, method=method)
    if len(moves) > MOST_ITEMS:
        raise InputError(f"at most {MOST_ITEMS:,} items are scored at once, got {len(moves):,}.")
    rows = _coefficients(model, moves, change)
    context = Ckks(parameters or CkksParameters())
    layout = Layout.of(rows.shape[1], question.items_per_ciphertext, context.parameters)
    return EncryptedScores(
        question.model, question.key, len(rows), _products(context, layout, question, rows)
    )


def _products(
    context: Ckks, layout: Layout, question: EncryptedYardstick, rows: FloatArray
) -> tuple[bytes, ...]:
    """Return the masked ciphertexts of the rows' products with the encrypted vector."""
    if len(question.pieces) != layout.n_pieces:
        raise InputError(
            f"the question must have {layout.n_pieces} ciphertexts, got {len(question.pieces)}."
        )
    public = context.load_public_key(question.public_key)
    turns = context.load_rotation_keys(question.rotation_keys, layout.rotations)
    pieces = [context.load_ciphertext(piece, what="the question") for piece in question.pieces]
    found = []
    for start in range(0, len(rows), layout.n_rows):
        block = rows[start : start + layout.n_rows]
        product = multiply(context, layout, pieces, block, turns)
        add_mask(context, product, np.linalg.norm(block, axis=1), public)
        found.append(context.to_bytes(product))
    return tuple(found)


def _coefficients(model: ModelForProvider, moves: FloatArray, change: Change) -> FloatArray:
    """Return what (g, vech H) is multiplied by for every item: (m, p(p + 3)/2)."""
    n, p = model.n_records, model.n_parameters
    s = n * moves / model.scale
    i, j = np.triu_indices(p)
    # ½ for the diagonal; outside it both halves of the matrix count.
    square = s[:, i] * s[:, j] * np.where(i == j, 0.5, 1.0) / np.sqrt(n)
    rows: FloatArray = -SIGN[change] * np.concatenate([s, square], axis=1)
    if not np.isfinite(rows).all() or np.abs(rows).sum(axis=1).max() > LARGEST:
        raise InputError(
            "an item would move the model further than can be scored under encryption. Leave out items "
            "with features far outside the range of the others."
        )
    return rows


class ItemTester:
    """The tester: holds the secret key, asks, decrypts, counts and rounds.

    Parameters
    ----------
    model : ModelForTester
    yardstick : Yardstick
        Derivatives of the tester's loss at that model.
    key_file : path
        File of the secret key, at the tester; made, and closed to other users, if it is not there.
    answers : AnswerBook
        Counts every score before it is given.
    digits, resolution
        How scores are rounded; see `round_scores`. Neither: to a unit of ten times the error that the
        self-test has measured.
    parameters : CkksParameters, optional
        Agreed by all parties beforehand.

    Raises
    ------
    EstimateNotTrustworthyError
        If the self-test finds that these parameters do not compute what they should. It runs here, for
        every key set, with known numbers of several sizes.
    MissingExtraError
        If TenSEAL is not installed.

    Examples
    --------
    See the head of this module.
    """

    def __init__(
        self,
        model: ModelForTester,
        yardstick: Yardstick,
        *,
        key_file: str | Path,
        answers: AnswerBook,
        digits: int | None = None,
        resolution: float | None = None,
        parameters: CkksParameters | None = None,
    ) -> None:
        p = yardstick.n_parameters
        if len(model.theta) != p or p > MOST_PARAMETERS:
            raise InputError(
                f"the yardstick must be of the model, with at most {MOST_PARAMETERS:,} numbers, got "
                f"{p:,} for {len(model.theta):,}."
            )
        self.model, self.answers = model, answers
        self._digits, self._resolution = digits, resolution
        self._room = Ckks(parameters or CkksParameters())
        self._secret, key_hash = read_secret_key(self._room, Path(key_file))
        rows = MOST_ROWS if answers.limit is None else power_of_two(answers.limit)
        self._layout = Layout.of(
            n_coefficients(p), min(max(rows, FEWEST_ROWS), MOST_ROWS), self._room.parameters
        )
        i, j = np.triu_indices(p)
        unit = model.scale
        bend = (yardstick.hessian * np.outer(unit, unit))[i, j] / np.sqrt(model.n_records)
        vector = np.concatenate([unit * yardstick.gradient, bend])
        self._largest = float(np.abs(vector).max()) or 1.0
        self._vector = vector / self._largest
        said = model.name.encode() + self._vector.tobytes() + self._largest.hex().encode()
        # A reply that was made for another number of rows has its scores in other slots.
        said += b"rows %d" % self._layout.n_rows
        self._key = hmac.new(key_hash, said, hashlib.sha256).hexdigest()[:32]
        self._signing = signing_key(key_hash)
        self._public_key = self._room.public_key(self._secret)
        self._rotation_keys = self._room.rotation_keys(self._secret, self._layout.rotations)
        self.error = self._test()
        """What products are off by, as a share of a typical one: measured, for this key set."""

    def question(self) -> EncryptedYardstick:
        """Return the message for providers; encrypted afresh and signed at every call."""
        return self._signed(self._encrypted(self._vector))

    def _signed(self, question: EncryptedYardstick) -> EncryptedYardstick:
        signature = self._signing.sign(together(question.signed_parts()))
        return replace(question, signer=public_half(self._signing), signature=signature)

    def _encrypted(self, vector: FloatArray) -> EncryptedYardstick:
        context, layout = self._room, self._layout
        return EncryptedYardstick(
            model=self.model.name,
            key=self._key,
            n_parameters=len(self.model.theta),
            items_per_ciphertext=layout.n_rows,
            public_key=self._public_key,
            rotation_keys=self._rotation_keys,
            pieces=tuple(
                context.encrypt_with_secret_key(slots, self._secret)
                for slots in layout.slots(vector, context.parameters.n_slots)
            ),
        )

    def _test(self) -> float:
        """Compute known products of several sizes, as a provider would; return the error, or refuse."""
        rng = np.random.default_rng(20)  # known numbers, not secret ones
        vector = rng.uniform(-1.0, 1.0, self._layout.n_columns)
        rows = rng.normal(size=(min(6, self._layout.n_rows), len(vector)))
        rows *= np.resize([1e-3, 1.0, 10.0], len(rows))[:, None]
        rows *= np.minimum(1.0, LARGEST / np.abs(rows).sum(axis=1, keepdims=True))
        try:
            replies = _products(self._room, self._layout, self._encrypted(vector), rows)
            found = self._decrypted([self._loaded(data) for data in replies], len(rows))
        except (InputError, RuntimeError, ValueError):
            found = np.full(len(rows), np.nan)
        length = np.linalg.norm(rows, axis=1)
        off = np.abs(found - rows @ vector) / length
        if not (off <= LARGEST_SELF_TEST_ERROR * np.linalg.norm(vector)).all():
            raise EstimateNotTrustworthyError(
                "the self-test of the encryption failed: known numbers came back wrong under these "
                "parameters. Use the default ones, and a TenSEAL of this version at every party."
            )
        # A row of no particular direction has a product of its length times this.
        return float(off.max() / np.sqrt(np.mean(vector**2)))

    def answer(self, reply: EncryptedScores, *, provider: str) -> RoundedScores:
        """Return the scores of a reply: counted, decrypted, rounded.

        Parameters
        ----------
        reply : EncryptedScores
        provider : str
            Who sent it.

        Returns
        -------
        RoundedScores

        Raises
        ------
        BudgetExceededError
            If the provider would get more scores than the limit.
        InputError
            If the reply belongs to another question, or is damaged, of the wrong size, or no score.
        """
        require_same_model(reply.model, self.model.name)
        if reply.key != self._key:
            raise InputError(
                "the reply must be to this tester's present question, but is to another. Ask again."
            )
        expected = -(-reply.n_items // self._layout.n_rows)
        if len(reply.ciphertexts) != expected:
            raise InputError(
                f"a reply for {reply.n_items} items must have {expected} ciphertexts, got "
                f"{len(reply.ciphertexts)}."
            )
        ciphers = [self._loaded(data) for data in reply.ciphertexts]
        request = b"".join(
            [self._key.encode(), *(hashlib.sha256(data).digest() for data in reply.ciphertexts)]
        )

        def decrypt() -> FloatArray:
            unit = self._largest / self.model.n_records
            return self._decrypted(ciphers, reply.n_items) * unit

        return self.answers.rounded(provider, reply.n_items, request, decrypt, self._rounded)

    def _rounded(self, scores: FloatArray) -> RoundedScores:
        if self._digits is None and self._resolution is None:
            return round_scores(scores, error=self.error)
        return round_scores(scores, digits=self._digits or DIGITS, resolution=self._resolution)

    def _loaded(self, data: bytes) -> object:
        context = self._room
        cipher = context.load_ciphertext(data, what="the reply")
        if (
            not 0.5 < cipher.scale / context.parameters.vector_scale < 2.0
            # Without the key's own prime, and one used up by the product.
            or cipher.coeff_modulus_size() != len(context.parameters.modulus_bits) - 2
        ):
            raise InputError(
                "the reply must be products as agreed, got another kind of ciphertext."
            )
        return cipher

    def _decrypted(self, ciphers: Sequence[object], n: int) -> FloatArray:
        rows, slots = self._layout.n_rows, [self._room.decrypt(c, self._secret) for c in ciphers]
        products = np.concatenate([part[:rows].real for part in slots])[:n]
        if not np.isfinite(products).all() or np.abs(products).max() > LARGEST:
            raise InputError(
                "the reply must hold scores, got numbers that no item can have. Refused."
            )
        return products
