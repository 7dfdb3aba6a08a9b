# SPDX-License-Identifier: Apache-2.0
"""Options that belong together, said once in a dataclass and handed to commands as one value."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import update_wrapper
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

__all__ = ["Without", "gathered"]

_R = TypeVar("_R")


class Without:
    """Options of a group that a command does not have; the group's defaults stand for them."""

    def __init__(self, *names: str) -> None:
        self.names = names


def gathered(command: Callable[..., _R]) -> Callable[..., _R]:
    """Let a command take dataclasses: Typer sees their fields as options, the command one value.

    The options come where the dataclass stands in the signature. A field that the command names
    itself, in its own place or with its own help, is handed to both.

    Parameters
    ----------
    command : callable
        Parameters whose type is a dataclass are gathered.

    Returns
    -------
    callable
        With a signature that Typer can read.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Reading:
    ...     data: str
    ...     delimiter: Annotated[str, "what stands between columns"] = ","
    ...     encoding: Annotated[str, "how letters are written"] = "utf-8"
    >>> @gathered
    ... def show(data: str, *, reading: Annotated[Reading, Without("encoding")]) -> None:
    ...     print(reading)
    >>> list(inspect.signature(show).parameters)
    ['data', 'delimiter']
    >>> show(data="a.csv", delimiter=";")
    Reading(data='a.csv', delimiter=';', encoding='utf-8')
    """
    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command).parameters
    groups: dict[str, tuple[Callable[..., object], list[str]]] = {}
    offered: dict[str, inspect.Parameter] = {}
    for name, parameter in own.items():
        kind, *extras = get_args(hints[name]) if _is_annotated(hints[name]) else (hints[name],)
        if not is_dataclass(kind):
            offered[name] = _option(name, hints[name], parameter.default)
            continue
        assert isinstance(kind, type)  # noqa: S101
        left_out = {name for extra in extras if isinstance(extra, Without) for name in extra.names}
        options = {
            field.name: _option(field.name, hint, field.default)
            for field, hint in _with_hints(kind)
            if field.name not in own and field.name not in left_out and _is_annotated(hint)
        }
        named = [field.name for field, _ in _with_hints(kind) if field.name in own]
        groups[name] = (kind, [*named, *options])
        offered |= options

    def run(**typed: Any) -> _R:
        given = {name: typed[name] for name in own if name not in groups}
        for name, (kind, names) in groups.items():
            given[name] = kind(**{field: typed[field] for field in names})
        return command(**given)

    update_wrapper(run, command)
    # Whoever looks for the function behind a command must find the one with the options.
    del run.__wrapped__  # type: ignore[attr-defined]
    run.__signature__ = inspect.Signature(list(offered.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: option.annotation for name, option in offered.items()}
    return run


def _is_annotated(hint: object) -> bool:
    return get_origin(hint) is Annotated


def _with_hints(kind: type) -> list[tuple[Any, object]]:
    hints = get_type_hints(kind, include_extras=True)
    return [(field, hints[field.name]) for field in fields(kind)]


def _option(name: str, annotation: object, default: object) -> inspect.Parameter:
    if default is MISSING:
        default = inspect.Parameter.empty
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
