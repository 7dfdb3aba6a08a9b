# SPDX-License-Identifier: Apache-2.0
"""What cannot be imported without an extra is not looked at for doctests."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [
    files
    for package, files in {
        "flwr": "src/epsilens/federated/flower/*.py",
        "torch": "src/epsilens/models/torch_head.py",
    }.items()
    if importlib.util.find_spec(package) is None
]
