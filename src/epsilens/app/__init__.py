# SPDX-License-Identifier: Apache-2.0
"""The page: a server on this machine only, what it keeps, and the work it starts."""

from __future__ import annotations
