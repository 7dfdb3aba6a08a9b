# SPDX-License-Identifier: Apache-2.0
"""LiRA, RMIA and BASE of LeakPro on shadow models that are given.

LeakPro trains PyTorch models only and keeps what they answer in a store. Here the store is replaced by one
that holds the answers of any classifier; the code of the attacks runs unchanged.

    python attack_with_leakpro.py --problem FILE.npz --out FILE.json
"""

from __future__ import annotations

import logging
from importlib.metadata import version

import numpy as np
import torch
from attack_exchange import Models, main

try:
    import torchvision  # noqa: F401
except RuntimeError:
    # Its usual build does not load beside a torch without CUDA for want of two operators. LeakPro imports it
    # for images, which these attacks do not touch.
    _operators = torch.library.Library("torchvision", "DEF")
    for _operator in ("nms", "qnms"):
        _operators.define(f"{_operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from leakpro.attacks.mia_attacks import base, lira, rmia

_SMALLEST = 1e-45
"""What LeakPro itself adds before a logarithm."""


class Store:
    """What LeakPro asks its store of shadow models for."""

    target_model_hash = "target"
    attack_cache_folder_path = ""

    def __init__(self, models: Models, number: int, order: np.ndarray) -> None:
        self.models, self.number, self.order = models, number, order

    def create_shadow_models(self, num_models: int, **_: object) -> list[int]:
        return list(range(num_models))

    def get_shadow_models(self, indices: list[int]) -> tuple[list[None], list[int]]:
        return [None] * len(indices), indices

    def get_in_indices_mask(self, indices: list[int], records: np.ndarray) -> np.ndarray:
        return self.models.shadow_members[np.ix_(indices, records)].T

    def load_logits(self, indx: int | None = None, name: str = "") -> np.ndarray:
        given = self.models.target[self.number] if indx is None else self.models.shadow[indx]
        return np.log(np.maximum(self.models.both_classes(given)[self.order], _SMALLEST))


class Handler:
    """What LeakPro's attacks ask of the data and the target model."""

    def __init__(self, models: Models, number: int) -> None:
        members = models.target_members[number]
        self.labels = models.labels
        self.population = models.labels
        self.population_size = len(models.labels)
        self.train_indices, self.test_indices = np.flatnonzero(members), np.flatnonzero(~members)
        self.target_model = torch.nn.Linear(1, 1)

    def get_criterion(self) -> torch.nn.Module:
        return torch.nn.CrossEntropyLoss()

    def get_labels(self, records: np.ndarray) -> np.ndarray:
        return self.labels[records]


def attack(
    models: Models, number: int, module: object, kind: type, **settings: object
) -> np.ndarray:
    """Return the score of each record by one of its attacks on one target model."""
    np.random.seed(number)  # noqa: NPY002 (LeakPro draws from the global generator)
    handler = Handler(models, number)
    order = np.concatenate([handler.train_indices, handler.test_indices])
    store = Store(models, number, order)
    module.ShadowModelHandler = lambda: store
    run = kind(handler, {"num_shadow_models": len(models.shadow), **settings})
    run.prepare_attack()
    run.run_attack()
    scores = np.empty(len(order))
    scores[order] = np.concatenate([run.in_member_signals, run.out_member_signals])[:, 0]
    return scores


_LIRA, _RMIA, _BASE = (lira, lira.AttackLiRA), (rmia, rmia.AttackRMIA), (base, base.AttackBASE)
_WHOLE = {"z_data_sample_fraction": 1.0}
ATTACKS = {
    "LiRA online, carlini": (
        _LIRA,
        {"online": True, "var_calculation": "carlini"},
    ),
    "LiRA online, individual_carlini": (
        _LIRA,
        {"online": True, "var_calculation": "individual_carlini"},
    ),
    "LiRA offline, carlini": (
        _LIRA,
        {"online": False, "var_calculation": "carlini"},
    ),
    "LiRA offline, individual_carlini": (
        _LIRA,
        {"online": False, "var_calculation": "individual_carlini"},
    ),
    "RMIA online, T = 1, γ = 1": (
        _RMIA,
        {"online": True, "temperature": 1.0, "gamma": 1.0, **_WHOLE},
    ),
    "RMIA online, T = 1, γ = 2": (
        _RMIA,
        {"online": True, "temperature": 1.0, "gamma": 2.0, **_WHOLE},
    ),
    "RMIA online, T = 2, γ = 1": (
        _RMIA,
        {"online": True, "temperature": 2.0, "gamma": 1.0, **_WHOLE},
    ),
    "RMIA offline, T = 1, γ = 1": (
        _RMIA,
        {"online": False, "temperature": 1.0, "gamma": 1.0, **_WHOLE},
    ),
    "BASE online, T = 1": (_BASE, {"online": True, "temperature": 1.0}),
    "BASE online, T = 2": (_BASE, {"online": True, "temperature": 2.0}),
}
"""Without `var_calculation="fixed"`, which this release computes for each record as it does "carlini"."""


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main(
        "leakpro",
        version("leakpro"),
        {
            name: (
                f"{kind.__name__}({', '.join(f'{key}={value!r}' for key, value in settings.items())})",
                lambda models, number, module=module, kind=kind, settings=settings: attack(
                    models, number, module, kind, **settings
                ),
            )
            for name, ((module, kind), settings) in ATTACKS.items()
        },
    )
