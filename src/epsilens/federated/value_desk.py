# SPDX-License-Identifier: Apache-2.0
"""A site's part in a valuation (P4): as a tester it asks, decrypts and counts; as a provider it replies.

Everything is computed from the site's draw, so whatever is said of its protected columns is covered by
what the draw has spent. A tester measures on the records that it has out of the model, if there are any,
else on those in it. The tester's secret key and its count of answers are files in the site's own
folder. A provider answers a tester once for each version of the model, and gives the same reply again when
it is asked again: an exchange that broke off costs nothing when it is taken up.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsilens._validate import as_count
from epsilens.errors import BudgetExceededError, InputError
from epsilens.federated.declaration import FederationSchema, Records
from epsilens.federated.site import Site
from epsilens.valuation.answer_book import AnswerBook
from epsilens.valuation.batch_exchange import BatchMove, answer_batch, offer_batch
from epsilens.valuation.item_exchange import (
    EncryptedScores,
    EncryptedYardstick,
    ItemTester,
    score_items,
)
from epsilens.valuation.model_moves import Change, ModelForProvider, ModelForTester
from epsilens.valuation.score_rounding import RoundedScores
from epsilens.valuation.yardstick import Yardstick

__all__ = ["AnswerLimits", "ValueDesk"]

FloatArray = NDArray[np.float64]

KEY, ANSWERS, REPLIES, SETTINGS = "value.key", "answers.sqlite", "replies", "value.json"


@dataclass(frozen=True)
class AnswerLimits:
    """What a site answers as a tester, decided by itself.

    Parameters
    ----------
    limit : int, optional
        Scores that one provider may get in all; None: `epsilens.valuation.default_limit`.
    limit_in_all : int, optional
        Scores that all providers may get together, whatever the coordinator calls them; None: as `limit`.
    noise : float
        Standard deviation of the noise on every score.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> AnswerLimits(limit=40).write(folder)
    >>> AnswerLimits.read(folder).limit
    40
    """

    limit: int | None = None
    limit_in_all: int | None = None
    noise: float = 0.0

    def write(self, folder: Path) -> None:
        """Keep the settings in a site's folder."""
        (folder / SETTINGS).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> AnswerLimits:
        """Return the settings of a site's folder; the default ones if there are none."""
        path = folder / SETTINGS
        if not path.exists():
            return cls()
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise InputError(
                f"{SETTINGS!r} in the site's folder must hold limit, limit_in_all and noise. Put it right."
            ) from None


class ValueDesk:
    """Where a site takes part in valuations.

    Parameters
    ----------
    folder : path
        The site's own.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    # --- As a tester ---

    def question(
        self, site: Site, model: ModelForTester, *, provider: int
    ) -> tuple[EncryptedYardstick, int | None]:
        """Return what a provider needs to score its items, and how many scores it may still get.

        Parameters
        ----------
        site : Site
        model : ModelForTester
        provider : int
        """
        tester = self._tester(site, model)
        return tester.question(), tester.answers.left(_name(provider))

    def scores(
        self, site: Site, model: ModelForTester, reply: EncryptedScores, *, provider: int
    ) -> RoundedScores:
        """Return the scores of a provider's reply, counted, decrypted and rounded.

        Parameters
        ----------
        site : Site
        model : ModelForTester
        reply : EncryptedScores
        provider : int
        """
        tester = self._tester(site, model)
        before = tester.answers.given_to(_name(provider))
        found = tester.answer(reply, provider=_name(provider))
        if tester.answers.given_to(_name(provider)) > before:
            site.note_value()
        return found

    def score_of(
        self, site: Site, model: ModelForTester, move: BatchMove, *, provider: int
    ) -> RoundedScores:
        """Return the one score of a provider's batch.

        Parameters
        ----------
        site : Site
        model : ModelForTester
        move : BatchMove
        provider : int
        """
        book = self._book(site.schema)
        before = book.given_to(_name(provider))
        stick = _yardstick(site, model)
        found = answer_batch(model, stick, move, provider=_name(provider), answers=book)
        if book.given_to(_name(provider)) > before:
            site.note_value()
        return found

    def _tester(self, site: Site, model: ModelForTester) -> ItemTester:
        return ItemTester(
            model,
            _yardstick(site, model),
            key_file=self.folder / KEY,
            answers=self._book(site.schema),
        )

    def _book(self, schema: FederationSchema) -> AnswerBook:
        own = AnswerLimits.read(self.folder)
        return AnswerBook(
            self.folder / ANSWERS,
            n_parameters=schema.n_parameters,
            limit=own.limit,
            limit_in_all=own.limit_in_all,
            noise=own.noise,
        )

    # --- As a provider ---

    def reply(
        self,
        site: Site,
        model: ModelForProvider,
        question: EncryptedYardstick,
        *,
        tester: int,
        n_items: int,
    ) -> tuple[EncryptedScores, Change]:
        """Return the encrypted scores of the first of a site's items, and which these are.

        Parameters
        ----------
        site : Site
        model : ModelForProvider
        question : EncryptedYardstick
            The tester's.
        tester : int
        n_items : int
            At most so many; none is left if the tester has answered all that it answers.

        Returns
        -------
        EncryptedScores
        {"add", "remove"}
            Whether they are on offer, or in the model already.

        Raises
        ------
        InputError
            If the tester asks in another way than before about the same model: each way tells it
            another number of every item.
        BudgetExceededError
            If no scores are left.
        """
        records, change = _valued(site)
        place = self.folder / REPLIES / f"{tester}-{model.name}.npz"
        if place.exists():
            given = _read_reply(place)
            if given.key != question.key:
                raise InputError(
                    f"site {site.number} answers a tester once for each version of the model, and site "
                    f"{tester} asks with another key or other records now. Ask about the next version."
                )
            return given, change
        if n_items < 1:
            raise BudgetExceededError(
                f"site {site.number} has got all the scores that it may get from site {tester}: more would "
                "determine the tester's statistics. The tester may raise its limit."
            )
        most = min(as_count(n_items, name="items"), records.n)
        chosen = records.take(slice(0, most))
        X, y = _arrays(chosen, site.schema)
        made = score_items(model, question, X, y, site.schema.loss, change=change)
        _write_reply(place, made)
        site.note_value()
        return made, change

    def move(self, site: Site, model: ModelForProvider) -> BatchMove:
        """Return how the model would move with all that the site offers, or without all it has given.

        Parameters
        ----------
        site : Site
        model : ModelForProvider
        """
        records, change = _valued(site)
        X, y = _arrays(records, site.schema)
        made = offer_batch(model, X, y, site.schema.loss, change=change)
        site.note_value()
        return made


def _name(site: int) -> str:
    return f"site {site}"


def _valued(site: Site) -> tuple[Records, Change]:
    """Return the records that are valued: those on offer, else those in the model."""
    offered = site.offered
    return (site.in_use, "remove") if offered is None else (offered, "add")


def _arrays(records: Records, schema: FederationSchema) -> tuple[FloatArray, FloatArray]:
    return schema.design(records).block(slice(None)), schema.labels(records)


def _yardstick(site: Site, model: ModelForTester) -> Yardstick:
    # A model is better judged on records that it was not trained on.
    records = site.in_use if site.offered is None else site.offered
    X, y = _arrays(records, site.schema)
    return Yardstick.of(model, X, y, site.schema.loss)


def _write_reply(place: Path, reply: EncryptedScores) -> None:
    place.parent.mkdir(mode=0o700, exist_ok=True)
    parts = {f"c{i}": np.frombuffer(c, dtype=np.uint8) for i, c in enumerate(reply.ciphertexts)}
    scratch = place.with_suffix(".part.npz")
    head = np.array([reply.model, reply.key, str(reply.n_items)])
    np.savez(scratch, head=head, **parts)  # type: ignore[arg-type]
    scratch.replace(place)


def _read_reply(place: Path) -> EncryptedScores:
    with np.load(place, allow_pickle=False) as stored:
        model, key, n_items = (str(text) for text in stored["head"])
        parts = [stored[f"c{i}"].tobytes() for i in range(len(stored.files) - 1)]
    return EncryptedScores(model, key, int(n_items), tuple(parts))
