# SPDX-License-Identifier: Apache-2.0
"""What is done to a record: randomised response, other local mechanisms, and what they spend."""

from __future__ import annotations

from epsilens.channels.budget import Budget, parse_grid
from epsilens.channels.channel import Channel
from epsilens.channels.draw import simulate
from epsilens.channels.local_hashing import LocalHashing
from epsilens.channels.product import ProductChannel
from epsilens.channels.randomized_response import RandomizedResponse
from epsilens.channels.unary_encoding import UnaryEncoding

__all__ = [
    "Budget",
    "Channel",
    "LocalHashing",
    "ProductChannel",
    "RandomizedResponse",
    "UnaryEncoding",
    "parse_grid",
    "simulate",
]
