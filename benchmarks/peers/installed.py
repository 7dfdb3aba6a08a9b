# SPDX-License-Identifier: Apache-2.0
"""Import libraries and write which versions came, as JSON: {"library": "1.2.3", ...}.

python benchmarks/peers/installed.py jax_privacy diffprivlib
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
import warnings
from importlib.metadata import packages_distributions, version


def main() -> None:
    warnings.simplefilter("ignore")
    found: dict[str, str | None] = {"python": platform.python_version()}
    distributions = packages_distributions()
    for name in sys.argv[1:]:
        try:
            importlib.import_module(name)
        except ImportError as error:
            found[name] = None
            print(f"{name} cannot be imported: {error}", file=sys.stderr)
        else:
            found[name] = version(distributions[name][0])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
