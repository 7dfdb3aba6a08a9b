# SPDX-License-Identifier: Apache-2.0
"""Download every data set that has a public loader: `python benchmarks/datasets`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from datasets import DATA_SETS, cache_folder, load
from epsilens.errors import InputError, MissingExtraError


def main() -> int:
    """Download them one by one; say what could not be had."""
    print(f"into {cache_folder()}")
    failed = False
    for name, data_set in DATA_SETS.items():
        if not data_set.sources:
            print(f"{name}: only from a folder")
            continue
        try:
            load(name)
            print(f"{name}: ready")
        except (InputError, MissingExtraError) as error:
            print(f"error: {error}", file=sys.stderr)
            failed = True
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
