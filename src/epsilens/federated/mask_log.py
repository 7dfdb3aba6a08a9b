# SPDX-License-Identifier: Apache-2.0
"""Persistent log of what a site answered under masks, so that no two answers disclose its own part.

Sums over two groups at the same model differ by the sums of those who are in one of them only. So a site that
insists on masks notes for every model with whom, for whose changes and from which draw it has answered,
and answers in no other way there.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from epsilens.data.private_files import PrivateStore
from epsilens.errors import SiteError
from epsilens.federated.masked_sums import MaskedQuestion
from epsilens.federated.provider_log import theta_name
from epsilens.federated.site import Site
from epsilens.federated.written import wish_text

FILE = "masked.sqlite"
MOST_ANSWERS = 100_000
"""Models that are noted; at more than these the site answers no more, for a note that forgets protects nobody."""

_TABLE = "CREATE TABLE IF NOT EXISTS answered (question TEXT PRIMARY KEY, asked TEXT NOT NULL)"
_DAMAGED = (
    "the site's note of what it has answered under masks cannot be read. Bring it back from a backup; "
    "without it two answers could give the site's own sums away."
)


class MaskLog:
    """A log of what a site that requires masks has answered.

    Parameters
    ----------
    folder : path
        The site's own.
    """

    def __init__(self, folder: str | Path) -> None:
        self._store = PrivateStore(
            Path(folder) / FILE,
            whose="the site",
            damaged=_DAMAGED,
            busy="the site is busy with another message. Try again.",
            tables=(_TABLE,),
        )

    def note(self, site: Site, question: MaskedQuestion) -> None:
        """Write a question down before its answer leaves, or refuse it.

        Parameters
        ----------
        site : Site
        question : MaskedQuestion

        Raises
        ------
        InputError
            If the answer, beside one that was given, could tell the site's own part.
        """
        if question.what == "trial":
            return
        changes = site.number in question.pending
        if question.what == "difference":
            if not changes:
                return  # zeros
            if len(question.pending) < 2:
                raise SiteError(
                    site.number,
                    "insists on masks, and would change alone: the sum of one is its own. "
                    "Use `apply --rung exact`, or wait until another site changes too.",
                )
        own = _own_data(site, pending=changes)
        place = [question.what, theta_name(question.theta)]
        # Prepared in another way a change is other data; the sums of two draws differ by the change.
        place += [own] if question.what == "difference" else []
        asked = [sorted(question.records.items()), sorted(question.pending), own]
        with self._store.transaction() as log:
            row = log.execute(
                "SELECT asked FROM answered WHERE question = ?", (_name(place),)
            ).fetchone()
            if row is not None and row["asked"] != _name(asked):
                raise SiteError(
                    site.number,
                    "insists on masks, and has answered at this model with another group "
                    "or for other changes: the two sums would give single sites away. Train or change with "
                    "all sites; take sites out by `remove --rung exact`.",
                )
            if row is None:
                (n,) = log.execute("SELECT COUNT(*) FROM answered").fetchone()
                if n >= MOST_ANSWERS:
                    raise SiteError(
                        site.number,
                        f"insists on masks, and has answered at {n} models, which is all "
                        "it keeps a note of. It can join anew, which spends its budget again.",
                    )
                log.execute("INSERT INTO answered VALUES (?, ?)", (_name(place), _name(asked)))


def _name(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _own_data(site: Site, *, pending: bool) -> str:
    """Return a hash of what a site's answer is computed from; it stays at the site."""
    state, drawn, how = site.state, site.state.current, ""
    if pending and state.preview is not None:
        how = wish_text(state.preview)
    elif pending and state.pending is not None:
        how = wish_text(state.pending.wish)
        drawn = state.pending.drawn or drawn
    found = hashlib.sha256(f"{site.n} {how} ".encode())
    found.update(drawn.records.codes.tobytes())
    return found.hexdigest()
