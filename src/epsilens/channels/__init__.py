# SPDX-License-Identifier: Apache-2.0
"""What is done to a record: randomised response, general channels, and the budget it spends."""

from __future__ import annotations

from epsilens.channels.budget import Budget, parse_grid
from epsilens.channels.channel import Channel
from epsilens.channels.draw import simulate
from epsilens.channels.product import ProductChannel
from epsilens.channels.randomized_response import RandomizedResponse

__all__ = [
    "Budget",
    "Channel",
    "ProductChannel",
    "RandomizedResponse",
    "parse_grid",
    "simulate",
]
