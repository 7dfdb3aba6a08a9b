# SPDX-License-Identifier: Apache-2.0
"""What the page asks and is told: the shapes of the messages, checked on arrival."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from epsilens.errors import Remedy

API_VERSION = 1
MOST_GROUPS = 8
"""A page of more curves is not read by anybody."""
MOST_COMPARED = 4
"""Studies in one chart."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Text = Annotated[str, StringConstraints(max_length=2000)]
Identifier = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
BinsText = Annotated[str, StringConstraints(pattern=r"^[-+0-9.eE:]{1,80}$")]
_NO_LETTERS = frozenset(
    {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"}
)
"""Codecs that are not ways to write a table."""


def _of_letters(name: str) -> str:
    if name.lower().replace("-", "_") in _NO_LETTERS:
        raise ValueError("no table is written so")
    return name


Delimiter = Annotated[str, StringConstraints(pattern=r"^[\t !#-~]$")] | None
Encoding = (
    Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,30}$"), AfterValidator(_of_letters)]
    | None
)
JobKind = Literal["cost", "attack", "mask"]
JobState = Literal["waiting", "running", "done", "failed", "cancelled", "interrupted"]
Stage = Literal["preview", "cost", "decision", "mask"]
ModelChoice = Literal[
    "logistic",
    "ridge",
    "hist-gradient-boosting",
    "random-forest",
    "extra-trees",
    "mlp",
    "xgboost",
    "lightgbm",
    "own",
]
"""Models by name; "own" is the one that the server was started with."""
LINEAR_CHOICES = frozenset({"logistic", "ridge"})
"""Models that have an exact cost; the others are trained again."""


class Message(BaseModel):
    """A message with these parts and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TableReading(Message):
    """How a table is to be read, where what was found out by looking at it is wrong."""

    delimiter: Delimiter = None
    encoding: Encoding = None
    categorical: Annotated[list[Name], Field(max_length=1000)] = []
    bins: Annotated[dict[Name, BinsText], Field(max_length=1000)] = {}


class StudyGroup(Message):
    """Some people: a name and the condition that they meet."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=80, pattern=r"^[^=<>!`]+$")]
    expression: Text


class Question(TableReading):
    """What is asked of a table; it never changes, a new question is a new study.

    Everybody may know which answers of a `declared` column are possible: those in the data. `trust` says who
    may see the true answers. `test` is another table, with the test data. The server sets `own_model`, as
    MODULE:NAME, and `has_probabilities`, whether the model gives any. With `identity`, the column that says
    whose record it is, the question is which columns to mask: the share `alpha` of what identifies must go.
    """

    label: Name
    protect: Annotated[list[Name], Field(max_length=20)] = []
    positive: Name | None = None
    declared: Annotated[list[Name], Field(max_length=20)] = []
    groups: Annotated[list[StudyGroup], Field(max_length=MOST_GROUPS)] = []
    allow_dependent_groups: bool = False
    drop: Annotated[list[Name], Field(max_length=1000)] = []
    weight: Name | None = None
    missing: Literal["auto", "error", "category", "drop"] = "auto"
    epsilon: Annotated[str, StringConstraints(pattern=r"^(lin:)?[0-9.,:eE+-]{1,200}$")] = (
        "0.1:10:30"
    )
    trust: Literal["curator", "nobody"] = "curator"
    test: Identifier | None = None
    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.25
    model: ModelChoice = "logistic"
    own_model: Name | None = None
    identity: Name | None = None
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.2
    has_probabilities: bool = True
    regularisation: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    correction: Literal["none", "forward"] = "none"
    shadow_models: Annotated[int, Field(ge=20, le=10_000)] = 128
    seed: Annotated[int, Field(ge=0, le=2**53 - 1)] = 0

    @property
    def protected(self) -> list[str]:
        """The columns that are randomised: the label unless others are named."""
        return self.protect or [self.label]

    @property
    def has_attack(self) -> bool:
        """Whether an attack is measured: it needs probabilities, of a model without correction."""
        is_attackable = self.has_probabilities and self.correction == "none"
        return is_attackable and self.model != "ridge" and self.identity is None

    @property
    def jobs(self) -> frozenset[JobKind]:
        """The long work that the question leads to."""
        if self.identity is not None:
            return frozenset({"mask"})
        return frozenset({"cost", "attack"} if self.has_attack else {"cost"})

    @property
    def is_linear(self) -> bool:
        """Whether the model has an exact cost, so that a preview of it is quick."""
        return self.model in LINEAR_CHOICES


EXCLUSIVE_LIMITS = (
    ("max_loss_increase", "max_accuracy_loss"),
    ("max_attack_rate", "max_advantage"),
)
"""Limits of one kind: only one of each is set."""


class Limits(Message):
    """The acceptable cost, what an attacker may get, and the budget that is looked at."""

    max_loss_increase: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    max_accuracy_loss: Annotated[float, Field(ge=0, le=100)] | None = None
    max_attack_rate: Annotated[float, Field(gt=0, lt=1)] | None = None
    max_advantage: Annotated[float, Field(gt=0, lt=1)] | None = None
    measured: bool = False
    chosen_epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_synonym(cls, given: object) -> object:
        """Leave out `proven_only`, which asks for the default; studies that are kept may have it."""
        if isinstance(given, dict):
            return {name: value for name, value in given.items() if name != "proven_only"}
        return given

    @model_validator(mode="after")
    def _has_one_of_each_kind(self) -> Self:
        for one, other in EXCLUSIVE_LIMITS:
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"give {one} or {other}, not both")
        return self

    def changed(self, change: Limits) -> Limits:
        """Return them with those that were sent; a new limit takes the place of the other kind.

        Examples
        --------
        >>> Limits(max_loss_increase=0.1).changed(Limits(max_accuracy_loss=0.5)).max_loss_increase
        """
        # What was not sent stays: another tab may have changed it.
        sent = {name: getattr(change, name) for name in change.model_fields_set}
        for pair in EXCLUSIVE_LIMITS:
            for one, other in (pair, pair[::-1]):
                if sent.get(one) is not None:
                    sent.setdefault(other, None)
        return self.model_copy(update=sent)

    def rules(self) -> dict[str, Any]:
        """Return them as arguments of `decide`."""
        return self.model_dump(exclude={"chosen_epsilon"})


class NewStudy(Message):
    """A table, what is asked of it, and limits."""

    table: Identifier
    name: Annotated[str, StringConstraints(max_length=120)] = ""
    question: Question
    limits: Limits = Limits()


class GroupQuestion(Message):
    """A group to be asked about at once, before it is kept."""

    expression: Text


class Renamed(Message):
    """What of a study may change; limits that are not sent stay as they are."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=120)] | None = None
    limits: Limits | None = None


class Table(Message):
    """A table that can be asked about."""

    id: Identifier
    name: str
    format: str
    size: int | None
    is_uploaded: bool
    created: float


class Job(Message):
    """Work that goes on in the background, and how far it has come."""

    id: Identifier
    study: Identifier
    kind: JobKind
    state: JobState
    done: int
    total: int
    what: str
    seconds_left: float | None
    message: str | None
    created: float


class StudyView(Message):
    """A study: what was asked, what has arrived, what is under way.

    `unanswered` says why no answer is shown yet: the preview failed its checks.
    """

    epsilens_api: int = API_VERSION
    id: Identifier
    name: str
    table: Identifier
    table_name: str
    question: Question
    limits: Limits
    has_attack: bool
    stage: Stage
    unanswered: str | None
    revision: int
    jobs: list[Job]
    created: float


class Session(Message):
    """What the page must know about the server."""

    epsilens_api: int = API_VERSION
    version: str
    anonymous: bool
    max_upload: int
    state: str
    suffixes: list[str]
    given: Identifier | None
    models: list[ModelChoice]
    can_mask: bool


class EntranceQuestion(Message):
    """The token of the link."""

    token: Annotated[str, StringConstraints(max_length=200)]


class Entrance(Message):
    """The key that the page shows with every request."""

    key: str


class TicketQuestion(Message):
    """The report that a frame is going to load."""

    path: Annotated[str, StringConstraints(pattern=r"^/studies/[0-9a-f]{16}/page$")]


class Ticket(Message):
    """What opens it, once and soon."""

    ticket: str


class Failure(Message):
    """Why a request was refused, in one line, and settings under which it would not be."""

    error: str
    id: str | None = None
    remedies: list[Remedy] = []
