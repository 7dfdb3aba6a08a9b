# SPDX-License-Identifier: Apache-2.0
"""The federation on Flower: a thin adapter around the plain functions (extra `federated`)."""

from __future__ import annotations

__all__: list[str] = []
