# SPDX-License-Identifier: Apache-2.0
"""Charts of documents: an earlier name of `epsilens.show`."""

from __future__ import annotations

from epsilens.show import *  # noqa: F403
from epsilens.show import __all__  # noqa: F401
