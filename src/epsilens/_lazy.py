# SPDX-License-Identifier: Apache-2.0
"""Names that are imported when they are first used: `epsilens --help` must answer at once."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence

__all__ = ["lazy_exports"]


def lazy_exports(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make the `__getattr__` and `__dir__` of a package whose modules are imported on first use.

    Parameters
    ----------
    package : str
        Name of the package.
    homes : mapping of str to sequence of str
        Names by the module that defines them.

    Examples
    --------
    >>> get, names = lazy_exports("epsilens", {"math": ["pi", "tau"]})
    >>> round(get("pi"), 2), names()
    (3.14, ['pi', 'tau'])
    """
    home = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> object:
        if name in home:
            return getattr(importlib.import_module(home[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted(home)
