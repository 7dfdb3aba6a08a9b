# SPDX-License-Identifier: Apache-2.0
"""Budgets, wishes, ledgers and versions as text and back, exactly: for stores and messages."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_args

from epsilens._validate import as_choice
from epsilens.channels import Budget
from epsilens.errors import InputError
from epsilens.federated.ledger import LedgerEntry, Mode, Operation
from epsilens.federated.site_state import Wish
from epsilens.federated.versions import Version

LONGEST_TEXT = 2**20
"""A budget or a ledger that is longer was not written by us."""


def budget_text(budget: Budget) -> str:
    """Write a budget; infinity is the word "inf".

    Examples
    --------
    >>> budget_text(Budget({"smokes": 1.0, "sex": math.inf}))
    '{"smokes": 1.0, "sex": "inf"}'
    """
    levels = {name: _written(value) for name, value in budget.per_column.items()}
    return json.dumps(levels, ensure_ascii=False)


def read_budget(text: str) -> Budget:
    """Read what `budget_text` wrote; anything else is refused.

    Examples
    --------
    >>> read_budget('{"smokes": 1.0, "sex": "inf"}')
    Budget({'smokes': 1.0, 'sex': inf})
    """
    given = _parsed(text)
    if not isinstance(given, dict):
        raise InputError("a budget must be an object of columns and numbers. Check the versions.")
    return Budget({name: _read(value) for name, value in given.items()})


def budgets_record(budgets: Mapping[int, Budget | None]) -> dict[str, str | None]:
    """Return every site's budget for JSON."""
    return {str(site): None if b is None else budget_text(b) for site, b in budgets.items()}


def read_budgets(record: Mapping[str, str | None]) -> dict[int, Budget | None]:
    """Return the budgets that `budgets_record` describes.

    Examples
    --------
    >>> read_budgets(budgets_record({4: None, 2: Budget({"smokes": 1.0})}))
    {4: None, 2: Budget({'smokes': 1.0})}
    """
    return {int(site): None if text is None else read_budget(text) for site, text in record.items()}


def wish_text(wish: Wish) -> str:
    """Write a wish.

    Examples
    --------
    >>> read_wish(wish_text(Wish(Budget({"smokes": 1.0})))).mode
    'degrade'
    """
    return json.dumps({"budget": budget_text(wish.budget), "mode": wish.mode}, ensure_ascii=False)


def read_wish(text: str) -> Wish:
    """Read what `wish_text` wrote; anything else is refused."""
    given = _parsed(text)
    if not isinstance(given, dict) or set(given) != {"budget", "mode"}:
        raise InputError("a wish must have a budget and a mode. Check the versions.")
    mode: Mode = as_choice(given["mode"], get_args(Mode), name="mode")  # type: ignore[assignment]
    return Wish(read_budget(given["budget"]), mode)


def ledger_text(entries: Iterable[LedgerEntry]) -> str:
    """Write lines of a ledger.

    Examples
    --------
    >>> entries = (LedgerEntry(0, "train", None, 3.0, 6.0, 6.0, True),)
    >>> read_ledger(ledger_text(entries)) == entries
    True
    """
    lines = [{name: _written(value) for name, value in asdict(entry).items()} for entry in entries]
    return json.dumps(lines, ensure_ascii=False)


def read_ledger(text: str) -> tuple[LedgerEntry, ...]:
    """Read what `ledger_text` wrote; anything else is refused."""
    given = _parsed(text)
    if not isinstance(given, list):
        raise InputError("a ledger must be a list of lines. Check the versions.")
    return tuple(_entry(line) for line in given)


def _entry(line: object) -> LedgerEntry:
    names = set(LedgerEntry.__dataclass_fields__)
    if not isinstance(line, Mapping) or set(line) != names:
        raise InputError("a line of a ledger must have its columns and no others.")
    site, private = line["site"], line["private"]
    if type(site) is not int or type(private) is not bool:
        raise InputError("a line of a ledger must name its site by a number.")
    mode = line["mode"]
    choices: Sequence[str] = get_args(Mode)
    return LedgerEntry(
        site=site,
        operation=as_choice(line["operation"], get_args(Operation), name="operation"),  # type: ignore[arg-type]
        mode=None if mode is None else as_choice(mode, choices, name="mode"),  # type: ignore[arg-type]
        epsilon=None if line["epsilon"] is None else _read(line["epsilon"]),
        record_epsilon=_read(line["record_epsilon"]),
        total_epsilon=_read(line["total_epsilon"]),
        private=private,
    )


def _parsed(text: object) -> object:
    if not isinstance(text, str) or len(text) > LONGEST_TEXT:
        raise InputError("expected a short text, got something else. Check the versions.")
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("expected JSON, got other text. Check the versions.") from None
    return parsed


def _written(value: object) -> object:
    return "inf" if isinstance(value, float) and value == math.inf else value


def _read(value: object) -> float:
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InputError('a level of privacy must be a number of at least 0 or "inf".')
    return math.inf if value > sys.float_info.max else float(value)


def version_record(version: Version) -> dict[str, object]:
    """Return a version for JSON, the model's numbers exactly.

    Examples
    --------
    >>> import numpy as np
    >>> version = Version(0, "train", None, None, (0,), np.array([0.1]), {0: Budget({"a": 1.0})}, None,
    ...                   None, "accept", "", True, 0.0, None, None, 5, 20, 800, 0.1)
    >>> read_version(version_record(version)).theta
    array([0.1])
    """
    record = {name: getattr(version, name) for name in Version.__dataclass_fields__}
    record["theta"] = version.theta.tolist()
    record["sites"] = list(version.sites)
    record["model_budgets"] = budgets_record(version.model_budgets)
    return record


def read_version(record: Mapping[str, Any]) -> Version:
    """Return the version that `version_record` describes."""
    import numpy as np

    given = dict(record)
    given["theta"] = np.array(given["theta"], dtype=np.float64)
    given["sites"] = tuple(given["sites"])
    given["model_budgets"] = read_budgets(given["model_budgets"])
    return Version(**given)
