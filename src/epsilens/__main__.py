# SPDX-License-Identifier: Apache-2.0
"""`python -m epsilens` is the command line."""

from __future__ import annotations

import sys

from epsilens.cli import main

if __name__ == "__main__":
    sys.exit(main())
