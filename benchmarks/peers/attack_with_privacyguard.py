# SPDX-License-Identifier: Apache-2.0
"""LiRA and RMIA of PrivacyGuard on shadow models that are given.

PrivacyGuard takes tables of scores, one row a record, so that its attacks run unchanged.

    python attack_with_privacyguard.py --problem FILE.npz --out FILE.json
"""

from __future__ import annotations

import logging
from importlib.metadata import version

import numpy as np
import pandas as pd
from attack_exchange import Models, main
from privacy_guard.analysis.mia.aggregate_analysis_input import AggregationType
from privacy_guard.attacks.lira_attack import LiraAttack
from privacy_guard.attacks.rmia_attack import RmiaAttack

_SMALLEST = 1e-16
"""Probabilities of 0 and 1 are taken for this and 1 minus it: PrivacyGuard is given log-odds."""


def log_odds(probability: np.ndarray) -> np.ndarray:
    kept = np.clip(probability, _SMALLEST, 1.0 - _SMALLEST)
    return np.log(kept) - np.log1p(-kept)


def in_order(frame: pd.DataFrame, members: np.ndarray, attack: object) -> np.ndarray:
    """Run an attack and return the score of each record; the lowest where it gives none."""
    found = attack.run_attack()
    scores = np.full(len(frame), -np.inf)
    for part in (found.df_train_merge, found.df_test_merge):
        scores[part["user_id"].to_numpy()] = part["score"].to_numpy()
    return np.where(np.isnan(scores), -np.inf, scores)


def lira(models: Models, number: int, *, online: bool, **settings: object) -> np.ndarray:
    """Return what LiraAttack says of each record of one target model."""
    shadow, seen = log_odds(models.shadow), models.shadow_members

    def side(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values = np.where(chosen, shadow, np.nan)
        return np.nanmean(values, axis=0), np.nanstd(values, axis=0, ddof=1)

    (mean_in, std_in), (mean_out, std_out) = side(seen), side(~seen)
    frame = pd.DataFrame(
        {
            "user_id": np.arange(shadow.shape[1]),
            "score_orig": log_odds(models.target[number]),
            "score_mean_in": mean_in,
            "score_std_in": std_in,
            "score_mean_out": mean_out,
            "score_std_out": std_out,
            "score_mean": mean_out,
            "score_std": std_out,
        }
    )
    members = models.target_members[number]
    attack = LiraAttack(
        frame[members].copy(),
        frame[~members].copy(),
        AggregationType.NONE,
        online_attack=online,
        **settings,
    )
    return in_order(frame, members, attack)


def rmia(models: Models, number: int, **settings: object) -> np.ndarray:
    """Return what RmiaAttack says of each record of one target model; all records are the population."""
    columns = {"user_id": np.arange(len(models.labels)), "score_orig": models.target[number]}
    for index, (answers, seen) in enumerate(zip(models.shadow, models.shadow_members, strict=True)):
        columns[f"score_ref_{index}"] = answers
        columns[f"member_ref_{index}"] = seen
    frame = pd.DataFrame(columns)
    members = models.target_members[number]
    attack = RmiaAttack(
        frame[members].copy(), frame[~members].copy(), frame, AggregationType.NONE, **settings
    )
    return in_order(frame, members, attack)


ATTACKS = {
    "LiRA online, a spread for each record": (lira, {"online": True}),
    "LiRA online, mean spreads in and out": (
        lira,
        {"online": True, "use_fixed_variance": True, "std_dev_type": "mix"},
    ),
    "LiRA online, mean spread in": (
        lira,
        {"online": True, "use_fixed_variance": True, "std_dev_type": "shadows_in"},
    ),
    "LiRA online, mean spread out": (
        lira,
        {"online": True, "use_fixed_variance": True, "std_dev_type": "shadows_out"},
    ),
    "LiRA offline, mean spread out": (lira, {"online": False, "std_dev_type": "shadows_out"}),
    "RMIA online": (rmia, {"online": True, "num_reference_models": 64}),
    "RMIA offline": (rmia, {"online": False}),
    "RMIA offline, 16 models": (rmia, {"online": False, "num_reference_models": 16}),
}


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main(
        "privacyguard",
        version("privacyguard-platform"),
        {
            name: (
                f"{function.__name__}({', '.join(f'{key}={value!r}' for key, value in settings.items())})",
                lambda models, number, function=function, settings=settings: function(
                    models, number, **settings
                ),
            )
            for name, (function, settings) in ATTACKS.items()
        },
    )
