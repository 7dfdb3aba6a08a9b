# SPDX-License-Identifier: Apache-2.0
"""A site's part in a valuation (P4): as a tester it asks, decrypts and counts; as a provider it replies.

Everything is computed from the site's draw, so whatever is said of its protected columns is covered by
what the draw has spent. A tester measures on the records that it has out of the model, if there are any,
else on those in it. The tester's secret key and its count of answers are files in the site's own
folder. A provider answers a tester once for each version of the model, and gives the same reply again when
it is asked again: an exchange that broke off costs nothing when it is taken up.

The model must be the one that was settled with the site, on either side: a coordinator that asks at models
of its own choice learns more with every one of them.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from epsilens._types import FloatArray
from epsilens._validate import as_count
from epsilens.data.private_files import write_private
from epsilens.errors import InputError, SiteBudgetError, SiteError
from epsilens.federated.declaration import FederationSchema, Records
from epsilens.federated.site import Site
from epsilens.federated.site_logs import (
    ProviderLog,
    move_bytes,
    read_move,
    read_reply,
    reply_bytes,
    theta_name,
)
from epsilens.federated.sums import SiteSums
from epsilens.valuation.answer_log import AnswerBook, RoundedScores
from epsilens.valuation.batch_exchange import (
    BatchMove,
    answer_batch,
    offer_batch,
    require_batch,
    require_same_model,
)
from epsilens.valuation.ckks import Ckks, CkksParameters, read_secret_key
from epsilens.valuation.item_exchange import ItemTester, score_items
from epsilens.valuation.item_messages import (
    EncryptedScores,
    EncryptedYardstick,
    check_signature,
    fingerprint_of,
    public_half,
    read_fingerprint,
    signing_key,
)
from epsilens.valuation.model_moves import Change, ModelForProvider, ModelForTester, Yardstick

# --- How much a site tells in valuations: its own decision, in a file of its own folder ---

SETTINGS = "value.json"


def default_replies(n_parameters: int) -> int:
    """Return how often a provider lets its items be scored if nothing else is agreed.

    Each time whoever wrote the question learns one number of every item, and p numbers determine it:
    half of them; at least once.

    Examples
    --------
    >>> [default_replies(p) for p in (1, 7, 30)]
    [1, 3, 15]
    """
    return max(1, n_parameters // 2)


@dataclass(frozen=True)
class AnswerLimits:
    """What a site tells in valuations, decided by itself.

    Parameters
    ----------
    limit : int, optional
        As a tester: scores that one provider may get in all; None: `epsilens.valuation.default_limit`.
    limit_in_all : int, optional
        Scores that all providers may get together, whatever the coordinator calls them; None: as `limit`.
    noise : float
        Standard deviation of the noise on every score.
    replies : int, optional
        As a provider: how often its items are scored in all, for whomever; 0: never; None:
        `default_replies`.
    testers : tuple of str
        Fingerprints of the testers that are answered; none: any.

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
    replies: int | None = None
    testers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "testers", tuple(map(read_fingerprint, self.testers)))
        if self.replies is not None:
            as_count(self.replies, name="replies", least=0)

    def write(self, folder: Path) -> None:
        """Keep the settings in a site's folder, whole or not at all, for its owner's eyes."""
        write_private(folder / SETTINGS, json.dumps(asdict(self)).encode("utf-8"))

    @classmethod
    def read(cls, folder: Path) -> AnswerLimits:
        """Return the settings of a site's folder; the default ones if there are none."""
        path = folder / SETTINGS
        if not path.exists():
            return cls()
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, AttributeError):
            raise InputError(
                f"{SETTINGS!r} in the site's folder must hold limit, limit_in_all, noise, replies and "
                "testers, or some of them. Put it right."
            ) from None


# --- A site's part in a valuation (P4): as a tester it asks, decrypts and counts; as a provider it replies ---

ValueQuery: TypeAlias = Literal["question", "reply", "scores", "left", "move", "score"]
"""What the two sites of a valuation are asked."""
KEY, ANSWERS, TOLD = "value.key", "answers.sqlite", "provider.sqlite"


class ValueService:
    """A site's part in valuations.

    Parameters
    ----------
    folder : path
        The site's own.
    pinned : bool
        Whether the model must be the one that was settled; only where all parties are one process, and
        nobody keeps a note of it, it need not.
    """

    def __init__(self, folder: str | Path, *, pinned: bool = True) -> None:
        self.folder, self._pinned = Path(folder), pinned

    # --- Which model it is about ---

    def settle(self, version: int, theta: FloatArray, *, before: int) -> None:
        """Note the model that a version is, for valuations to come.

        Parameters
        ----------
        version : int
        theta : array of shape (p,)
        before : int
            The version that the site had until now.

        Raises
        ------
        InputError
            If this version was settled as another model.
        """
        log = self._told()
        if version > before:
            log.settle(version, theta)
        elif log.settled() not in {None, (version, theta_name(theta))}:
            raise InputError(
                f"version {version} of the model was settled with other numbers. The coordinator must "
                "settle a version once."
            )

    def _require_settled(self, site: Site, theta: FloatArray) -> None:
        known = self._told().settled() if self._pinned else None
        if self._pinned and (known is None or known[1] != theta_name(theta)):
            has = "no version of the model" if known is None else f"version {known[0]}"
            raise SiteError(
                site.number,
                f"was told of {has}, and is asked about another model than that. It "
                "values records at the settled version only.",
            )

    def _told(self) -> ProviderLog:
        return ProviderLog(self.folder / TOLD)

    def _note(self, site: Site, *, is_new: bool) -> None:
        """Write an exchange into the ledger, or one that a stop has left out of it."""
        told = self._told().count("items", "batch") + self._log(site.schema).n_answered()
        lines = sum(line.operation == "value" for line in site.ledger)
        if is_new or lines < told:
            site.note_value()

    # --- As a tester ---

    def fingerprint(self) -> str:
        """Return by what providers know this site as a tester; its secret key is made if there is none.

        Raises
        ------
        MissingExtraError
            If TenSEAL is not installed.
        """
        _, secret = read_secret_key(Ckks(CkksParameters()), self.folder / KEY)
        return fingerprint_of(public_half(signing_key(secret)))

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

    def left(self, site: Site, *, provider: int) -> int | None:
        """Return how many scores a provider may still get; None: without end."""
        return self._log(site.schema).left(_name(provider))

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
        before = tester.answers.n_answered()
        found = tester.answer(reply, provider=_name(provider))
        self._note(site, is_new=tester.answers.n_answered() > before)
        return found

    def score(
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
        self._require_settled(site, model.theta)
        log = self._log(site.schema)
        before = log.n_answered()
        stick = _yardstick(site, model)
        found = answer_batch(model, stick, move, provider=_name(provider), answers=log)
        self._note(site, is_new=log.n_answered() > before)
        return found

    def _tester(self, site: Site, model: ModelForTester) -> ItemTester:
        self._require_settled(site, model.theta)
        return ItemTester(
            model,
            _yardstick(site, model),
            key_file=self.folder / KEY,
            answers=self._log(site.schema),
        )

    def _log(self, schema: FederationSchema) -> AnswerBook:
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
        items: int,
    ) -> tuple[EncryptedScores, Change]:
        """Return the encrypted scores of the first of a site's items, and which these are.

        Parameters
        ----------
        site : Site
        model : ModelForProvider
        question : EncryptedYardstick
            The tester's.
        tester : int
        items : int
            At most so many; none is left if the tester has answered all that it answers.

        Returns
        -------
        EncryptedScores
        {"add", "remove"}
            Whether they are on offer, or in the model already.

        Raises
        ------
        InputError
            If the model is not the settled one, the question not as its tester signed it, the tester not
            one of those that the site answers, or if it asks in another way than before about the same
            model: each way tells it another number of every item.
        BudgetExceededError
            If no scores are left, or the site's items were scored as often as it lets them.
        """
        self._require_settled(site, model.theta)
        check_signature(question.signer, question.signature, question.signed_parts())
        require_same_model(question.model, model.name)
        own, log, who = AnswerLimits.read(self.folder), self._told(), question.fingerprint
        self._require_known(site, who, own, tester=tester)
        records, change = _valued(site)
        theta = theta_name(model.theta)
        kept = log.told("items", theta, asker=who, called=_name(tester))
        if kept is not None:
            given = read_reply(kept)
            if given.key != question.key:
                raise SiteError(
                    site.number,
                    "answers a tester once for each version of the model, and site "
                    f"{tester} asks with another key, other records or limits now. Ask about the next version.",
                )
            self._note(site, is_new=False)
            return given, change
        if items < 1:
            raise SiteBudgetError(
                site.number,
                f"has got all the scores that it may get from site {tester}: more would "
                "determine the tester's statistics. The tester may raise its limit.",
            )
        most = default_replies(site.schema.n_parameters) if own.replies is None else own.replies
        if log.count("items") >= most:
            raise SiteBudgetError(
                site.number,
                f"lets its items be scored {most} times in all, and they were: each time "
                "whoever asks learns one number of every item. The site may raise `replies`.",
            )
        chosen = records.take(slice(0, min(as_count(items, name="items"), records.n)))
        X, y = _arrays(chosen, site.schema)
        made = score_items(model, question, X, y, site.schema.loss, change=change)
        log.tell("items", theta, reply_bytes(made), asker=who, called=_name(tester))
        self._note(site, is_new=True)
        return made, change

    def _require_known(self, site: Site, who: str, own: AnswerLimits, *, tester: int) -> None:
        """Refuse a tester that cannot be one, and say at this site who asks."""
        if tester == site.number:
            raise SiteError(site.number, "is no tester of its own records. Refused.")
        if site.state.insists_on_masks and not own.testers:
            raise SiteError(
                site.number,
                "insists on masks, and scores its records only for testers whose keys it "
                "was told. Compare fingerprints; then `epsilens federate site --tester-key`.",
            )
        if own.testers and who not in own.testers:
            raise SiteError(
                site.number,
                f"answers testers whose fingerprints it knows, and {who}, which is said to "
                f"be site {tester}'s, is none of them. Compare fingerprints; then `epsilens federate site "
                "--tester-key`.",
            )
        # To the people at this site, who can compare it with what the tester's own people read.
        print(f"Site {tester} asks as tester {who}.", file=sys.stderr, flush=True)  # noqa: T201

    def move(self, site: Site, model: ModelForProvider) -> BatchMove:
        """Return how the model would move with all that the site offers, or without all it has given.

        Parameters
        ----------
        site : Site
        model : ModelForProvider

        Raises
        ------
        InputError
            If the model is not the settled one, or the batch too small for what was disclosed about it already.
        """
        self._require_settled(site, model.theta)
        log, theta = self._told(), theta_name(model.theta)
        kept = log.told("batch", theta)
        if kept is not None:
            given = read_move(kept)
            require_same_model(given.model, model.name)
            self._note(site, is_new=False)
            return given
        records, change = _valued(site)
        self._require_batch(site, records, moves=1)
        X, y = _arrays(records, site.schema)
        made = offer_batch(model, X, y, site.schema.loss, change=change)
        log.tell("batch", theta, move_bytes(made))
        self._note(site, is_new=True)
        return made

    def submit(self, site: Site, theta: FloatArray) -> SiteSums:
        """Return the sums of the records on offer, which the coordinator wants to accept.

        Parameters
        ----------
        site : Site
        theta : array of shape (p,)

        Raises
        ------
        InputError
            As `move`, or if nothing is on offer.
        """
        self._require_settled(site, theta)
        log, name = self._told(), theta_name(theta)
        is_new = log.told("submission", name) is None
        if is_new and site.offered is not None:
            self._require_batch(site, site.offered, submissions=1)
        sums = site.submit(theta)
        if is_new:
            log.tell("submission", name, b"")
        return sums

    def _require_batch(
        self, site: Site, records: Records, *, moves: int = 0, submissions: int = 0
    ) -> None:
        """Refuse one move or submission more than the size of the batch bears."""
        log, schema = self._told(), site.schema
        require_batch(
            records.n,
            schema.n_parameters,
            schema.loss.n_outputs,
            moves=max(log.count("batch") + moves, 1),
            submissions=max(log.count("submission") + submissions, 1),
        )


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
