# SPDX-License-Identifier: Apache-2.0
"""What pages take for granted writes files: it is run by the tests, in their folders, and not collected."""

from __future__ import annotations

collect_ignore_glob = ["before/*.py"]
