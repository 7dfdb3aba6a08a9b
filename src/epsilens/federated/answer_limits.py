# SPDX-License-Identifier: Apache-2.0
"""How much a site tells in valuations: its own decision, in a file of its own folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from epsilens._validate import as_count
from epsilens.data.private_files import write_private
from epsilens.errors import InputError
from epsilens.valuation.item_messages import read_fingerprint

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
