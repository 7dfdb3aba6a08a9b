# SPDX-License-Identifier: Apache-2.0
"""What cannot be imported without an extra is not looked at for doctests."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = (
    [] if importlib.util.find_spec("flwr") else ["src/epsilens/federated/flower/*.py"]
)
