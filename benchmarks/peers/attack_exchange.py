# SPDX-License-Identifier: Apache-2.0
"""What the benchmark of membership attacks and a peer's program tell each other.

A problem is an .npz with what shadow and target models answer for the same records; an answer is JSON with
a score for every target model and record. A peer runs under its own Python, so this file needs nothing but NumPy.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Models:
    """What models of two classes answer, and which records they were trained on.

    Attributes
    ----------
    labels : array of int, (n_records,)
        Class of each record, 0 or 1.
    shadow, target : array of float, (n_models, n_records)
        Probability that each model gives to the record's own class.
    shadow_members, target_members : array of bool, (n_models, n_records)
    """

    labels: np.ndarray
    shadow: np.ndarray
    shadow_members: np.ndarray
    target: np.ndarray
    target_members: np.ndarray

    def save(self, file: Path) -> None:
        np.savez(file, **asdict(self))

    @classmethod
    def load(cls, file: Path) -> Models:
        with np.load(file) as arrays:
            return cls(**{name: arrays[name] for name in arrays.files})

    def both_classes(self, probability: np.ndarray) -> np.ndarray:
        """Return the probabilities of class 0 and class 1, shape (n_records, 2)."""
        both = np.column_stack([probability, 1.0 - probability])
        return np.where(self.labels[:, None] == 0, both, both[:, ::-1])


Attack = Callable[[Models, int], np.ndarray]
"""From the models and the number of a target to a score for each record, larger for a member."""


def main(library: str, version: str, attacks: Mapping[str, tuple[str, Attack]]) -> None:
    """Attack every target with every attack; the whole program of a peer.

    Parameters
    ----------
    library, version : str
    attacks : mapping of name to (calls, attack)
    """
    parser = argparse.ArgumentParser(description=f"Membership attacks of {library}.")
    parser.add_argument("--problem", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    settings = parser.parse_args()
    models = Models.load(settings.problem)
    answers = []
    next(iter(attacks.values()))[1](
        models, 0
    )  # so that everything is loaded before the clock starts
    for name, (calls, attack) in attacks.items():
        scores, seconds = [], []
        for target in range(len(models.target)):
            started = time.process_time()
            scores.append(attack(models, target).tolist())
            seconds.append(time.process_time() - started)
        answers.append({"method": name, "calls": calls, "cpu_seconds": seconds, "scores": scores})
    whole = {
        "library": library,
        "version": version,
        "python": platform.python_version(),
        "answers": answers,
    }
    settings.out.write_text(json.dumps(whole) + "\n")
