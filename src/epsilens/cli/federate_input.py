# SPDX-License-Identifier: Apache-2.0
"""From what was typed about a federation to sites with records under one contract."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from epsilens.cli.option_groups import choice, option, switch
from epsilens.cli.options import (
    BinsOption,
    Categorical,
    Categories,
    Delimiter,
    Drop,
    Encoding,
    Missing,
    Positive,
    TableOptions,
    TestShare,
    comma_list,
    delimiter_from,
    mapping_of_bins,
    read_level,
    require_text,
)
from epsilens.errors import InputError
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd

    from epsilens.channels import Budget
    from epsilens.federated import FederationSchema, Records
    from epsilens.federated.plan import PlannedOperation
    from epsilens.federated.valuing import Valuation


_PANEL = "Valuation"


ValueModeChoice = Literal["items", "batch"]
"""How records are valued between sites."""


Items = Annotated[
    int | None,
    option(
        "Value so many records at most; otherwise as many as the tester answers.",
        "N",
        panel=_PANEL,
        min=1,
    ),
]
ValueModeOption = Annotated[
    ValueModeChoice,
    choice(
        ValueModeChoice,
        "items: a score for each record, under encryption; batch: one score, and the coordinator sees "
        "how the model would move (weak).",
        panel=_PANEL,
    ),
]
Accept = Annotated[
    bool,
    switch(
        "--accept", "Take records on offer into the model if they help on the whole.", panel=_PANEL
    ),
]
SecureAggregation = Annotated[
    bool,
    switch(
        "--secure-aggregation",
        "Mask every site's sums, so that the coordinator sees those over all sites only.",
    ),
]
Value = Annotated[
    list[str] | None,
    option(
        "What site A's records are worth on site B's (repeat), after all changes.",
        "A:B",
        panel=_PANEL,
    ),
]
Offer = Annotated[
    list[str] | None,
    option(
        "A site keeps a share of its records out of the model: on offer as a provider's, and for tests "
        "as a tester's (repeat).",
        "SITE:SHARE",
        panel=_PANEL,
    ),
]
ScoreLimit = Annotated[
    int | None,
    option(
        "Scores that a site gives in all, whoever asks; otherwise a safe share of what would give its "
        "statistics away.",
        "N",
        panel=_PANEL,
        min=1,
    ),
]
TesterKey = Annotated[
    list[str] | None,
    option(
        "Let only this tester ask about the site's records (repeat); its people read it from their own "
        "site's first lines.",
        "FINGERPRINT",
        panel=_PANEL,
    ),
]
ScoreFile = Annotated[
    str | None,
    option(
        "Write the single scores to a .csv file; they are in no document.", "FILE", panel=_PANEL
    ),
]


def changes_of(text: str) -> dict[int, float]:
    """Read one `--change`: `2:1.0`, or several sites in one operation, `2:1.0,3:1.0`.

    Examples
    --------
    >>> changes_of("2:1.0,3:0.5")
    {2: 1.0, 3: 0.5}
    """
    from epsilens._validate import as_epsilon

    found: dict[int, float] = {}
    for part in text.split(","):
        site, sign, number = part.strip().partition(":")
        try:
            place, level = int(site), float(number)
        except ValueError:
            sign = ""
        if not sign or place < 0:
            raise InputError(
                f"`--change` must be SITE:EPSILON, for instance 2:1.0, got {part!r}. Sites are numbered "
                "from 0."
            )
        if place in found:
            raise InputError(
                f"`--change` must name site {place} once in one operation, got it twice."
            )
        found[place] = as_epsilon(level, name="change", of=f"site {place}")
    return found


def scales_of(
    typed: Iterable[str] | None, columns: Iterable[str]
) -> dict[str, tuple[float, float]]:
    """Read all `--scale` options: a column, its centre and the unit that it is measured in.

    Examples
    --------
    >>> scales_of(["age=40:10"], ["age", "sex"])
    {'age': (40.0, 10.0)}
    """
    known, found = list(columns), {}
    for text in typed or ():
        name, _, numbers = text.strip().rpartition("=")
        centre, _, scale = numbers.partition(":")
        try:
            pair = float(centre), float(scale)
        except ValueError:
            pair = math.nan, math.nan
        if name not in known or not (math.isfinite(pair[0]) and 0 < pair[1] < math.inf):
            raise InputError(
                f"`--scale` must be COL=CENTRE:SCALE with a column of the model and a scale above 0, for "
                f"instance age=40:10, got {text!r}."
            )
        found[name] = pair
    return found


def sites_of(values: Iterable[str] | None, *, option: str) -> tuple[int, ...]:
    """Read the numbers of sites, as they were typed for an option.

    Examples
    --------
    >>> sites_of(["4", "1,2"], option="--remove")
    (4, 1, 2)
    """
    typed = [part.strip() for value in values or () for part in value.split(",")]
    for part in typed:
        if not part.isdecimal():
            raise InputError(
                f"`{option}` must be the number of a site, from 0, got {part!r}. For instance 4."
            )
    return tuple(dict.fromkeys(int(part) for part in typed))


def check_numbers(regularisation: float, limit: float | None) -> None:
    """Refuse, before any work, numbers that no federation can have."""
    if not (math.isfinite(regularisation) and regularisation >= 0):
        raise InputError(
            f"`--regularisation` must be at least 0 and finite, got {regularisation}. Use for instance "
            "0.001."
        )
    if limit is not None and not limit > 0:
        raise InputError(f"`--limit` must be greater than 0, got {limit}. Use for instance 6.")


def level_of(epsilon: str, contract: FederationSchema) -> Budget:
    """Read what was typed for `--epsilon`: one level for all protected columns, or one for each."""
    from epsilens.federated import as_budget

    several = "Every site begins at the same level; use `--change` for others."
    return as_budget(contract, read_level(epsilon, several=several))


@dataclass(frozen=True, repr=False)
class Contracted:
    """A table under a contract: what is divided among the sites, and what is kept for tests."""

    contract: FederationSchema
    train: pd.DataFrame
    test: Records
    notes: Sequence[Note]


@dataclass(frozen=True, kw_only=True)
class FederationTable:
    """How the table of a federation is to be read, as it was typed.

    Examples
    --------
    >>> FederationTable(label="smokes", protect=["smokes"]).test_share
    0.25
    """

    label: str | None = None
    protect: Sequence[str] | None = None
    schema: str | None = None
    scale: Sequence[str] | None = None
    seed: int = 0
    drop: Drop = None
    categorical: Categorical = None
    categories: Categories = None
    bins: BinsOption = None
    missing: Missing = "auto"
    delimiter: Delimiter = None
    encoding: Encoding = None
    positive: Positive = None
    test_share: TestShare = 0.25

    def read(self, data: str) -> Contracted:
        """Read the table under the contract that was given, or under one that it suggests.

        Parameters
        ----------
        data : str
            The file.
        """
        require_text([*(self.protect or ()), *(self.categories or ())], option="--protect")
        if self.schema is not None:
            return self._under_contract(data)
        columns = comma_list(self.protect)
        if self.label is None or not columns:
            raise InputError(
                "`--label` and `--protect` must be given, or `--schema` with a contract that names them."
            )
        return self._suggested(data, self.label, columns)

    def _suggested(self, data: str, label: str, columns: tuple[str, ...]) -> Contracted:
        from epsilens.federated.declare import declare

        typed = {one.name: getattr(self, one.name) for one in fields(self)}
        shared = {one.name: typed[one.name] for one in fields(TableOptions) if one.name in typed}
        table = TableOptions(**shared | {"label": label})
        study = table.study(data, protect=columns)
        prepared = study.prepared
        contract = declare(
            prepared.X_train,
            prepared.schema,
            label=label,
            label_categories=prepared.label_categories,
            protect=columns,
            categories=study.read_domains(warn=False),
            scales=scales_of(self.scale, prepared.X_train.columns),
        )
        train = prepared.X_train.assign(**{label: prepared.y_train.array})
        test = prepared.X_test.assign(**{label: prepared.y_test.array})
        return Contracted(contract, train, contract.encode(test), prepared.notes)

    def _under_contract(self, data: str) -> Contracted:
        """Check the table against the contract, and set some rows aside."""
        import numpy as np

        from epsilens._validate import as_share
        from epsilens.data import read_table
        from epsilens.federated import FederationSchema

        decided = ("label", "protect", "categories", "drop", "categorical", "positive")
        for name in decided:
            if getattr(self, name):
                raise InputError(
                    f"`--schema` decides about columns and answers, so `--{name}` cannot be used with it."
                )
        contract = FederationSchema.read(str(self.schema))
        table = read_table(data, delimiter=delimiter_from(self.delimiter), encoding=self.encoding)
        frame = _binned(table.frame, self.bins)
        records = contract.encode(frame)
        frame = frame[[column.name for column in (*contract.columns, contract.label)]]
        n_test = round(as_share(self.test_share, name="test_share") * records.n)
        if not 0 < n_test < records.n:
            raise InputError(
                f"at least one row must be left for training and one for testing, got {records.n} rows."
            )
        order = np.random.default_rng(self.seed).permutation(records.n)
        test, train = np.sort(order[:n_test]), np.sort(order[n_test:])
        return Contracted(
            contract, frame.iloc[train].reset_index(drop=True), records.take(test), table.notes
        )


def _binned(frame: pd.DataFrame, typed: Sequence[str] | None) -> pd.DataFrame:
    """Put numbers into the bins whose middles the contract names."""
    from epsilens.channels.domain import domain_of, floats_of

    changed = frame
    for name, bins in mapping_of_bins(typed).items():
        if name not in frame.columns or bins.low is None:
            raise InputError(
                f"`--bins` beside `--schema` must name a column with bounds, as in {name}=LOW:HIGH:10. "
                "A contract takes no bound from the data."
            )
        domain_of(
            frame[name], given=None, bins=bins, with_missing=False
        )  # refuses what is no number
        changed = changed.assign(**{name: bins.apply(floats_of(frame[name]))})
    return changed


# --- Valuations between sites ---


def checked_valuations(
    typed: Iterable[str] | None,
    *,
    mode: str,
    items: int | None,
    accept: bool,
    offers: Mapping[int, float],
) -> list[PlannedOperation]:
    """Read all `--value` options: provider and tester, as in `1:3`; refuse what cannot be done.

    Examples
    --------
    >>> checked_valuations(["1:3"], mode="batch", items=None, accept=False, offers={})[0].sites
    (1, 3)
    """
    from epsilens.federated.plan import PlannedOperation
    from epsilens.valuation.ckks import seal

    found = []
    for text in typed or ():
        provider, sign, tester = text.strip().partition(":")
        if not sign or not provider.isdecimal() or not tester.isdecimal():
            raise InputError(
                f"`--value` must be PROVIDER:TESTER, for instance 1:3, got {text!r}. Sites are numbered "
                "from 0."
            )
        if int(provider) == int(tester):
            raise InputError(f"`--value` must name two sites, got {provider} twice.")
        found.append(
            PlannedOperation(
                "value",
                sites=(int(provider), int(tester)),
                value_mode=mode,  # type: ignore[arg-type]
                items=items,
                accept=accept,
            )
        )
        if accept and int(provider) not in offers:
            raise InputError(
                f"`--accept` needs records on offer, and site {provider} has none. Add for instance "
                f"`--offer {provider}:0.3`."
            )
    if found and mode == "items":
        seal()
    return found


def keep_limits(folder: Path, *, limit: int | None, testers: Sequence[str] | None) -> None:
    """Change what was typed of a site's limits, and leave the others as they are."""
    from epsilens.federated.value_service import AnswerLimits

    if limit is None and not testers:
        return
    kept = AnswerLimits.read(folder)
    if limit is not None:
        kept = replace(kept, limit=limit)
    if testers:
        kept = replace(kept, testers=tuple(testers))
    kept.write(folder)


def say_fingerprint(folder: Path) -> None:
    """Tell a site's people by what its providers will know it, if it can be a tester at all."""
    from epsilens.errors import MissingExtraError
    from epsilens.federated.value_service import ValueService

    try:
        found = ValueService(folder).fingerprint()
    except MissingExtraError:
        return
    typer.echo(f"As a tester of others' records this site is {found}.")


def check_secure(algorithm: str, *, secure: bool) -> None:
    """Refuse, before any work, what cannot be added up under masks."""
    if secure and algorithm == "fedavg":
        raise InputError(
            "`--secure-aggregation` adds up gradients and Hessians, and fedavg has neither. Use "
            "`--algorithm newton`."
        )


def offers_of(typed: Iterable[str] | None, *, n_sites: int) -> dict[int, float]:
    """Read all `--offer` options: a site, and the share of its records that it has on offer.

    Examples
    --------
    >>> offers_of(["1:0.3"], n_sites=5)
    {1: 0.3}
    """
    found: dict[int, float] = {}
    for text in typed or ():
        site, _, share = text.strip().partition(":")
        try:
            number, part = int(site), float(share)
        except ValueError:
            number, part = -1, math.nan
        if not 0 <= number < n_sites or not 0 < part < 1:
            raise InputError(
                f"`--offer` must be SITE:SHARE with a site from 0 to {n_sites - 1} and a share between 0 "
                f"and 1, for instance 1:0.3, got {text!r}."
            )
        found[number] = part
    return found


def write_scores(valuations: Sequence[Valuation], path: str) -> None:
    """Write single scores as a table: provider, tester, item, score."""
    from epsilens.data import write_text

    lines = ["provider,tester,item,score"]
    for found in valuations:
        head = f"{found.provider},{found.tester}"
        lines += [f"{head},{i},{score!r}" for i, score in enumerate(found.scores.tolist())]
    write_text("\n".join(lines) + "\n", path)
