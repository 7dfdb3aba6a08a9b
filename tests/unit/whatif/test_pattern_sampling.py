# SPDX-License-Identifier: Apache-2.0
"""What several samples of bit patterns say of each other."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from epsilens.whatif import methods
from epsilens.whatif.cells import CellAnswer, CellQuestion


def answer(change):
    return CellAnswer(
        group_index=0,
        epsilon_index=0,
        loss_change=change,
        loss_low=change - 0.3,
        loss_high=change + 0.5,
        changes={},
        intervals={},
        trusted=True,
        loss_runs=np.zeros(20),
    )


def test_samples_are_averaged_and_the_interval_is_widened_by_their_spread(monkeypatch):
    changes = [0.10, 0.14, 0.12, 0.20]
    later = iter(changes[1:])
    block = SimpleNamespace(alternatives=lambda design: None, joint=lambda epsilon: np.eye(2))
    monkeypatch.setattr(methods, "compute_cells", lambda *_: [answer(next(later))])
    monkeypatch.setattr(methods.UnaryBlock, "of", lambda *_, **__: block)
    asked = SimpleNamespace(
        unary=SimpleNamespace(kind="oue", feature=None), epsilons=(1.0,), notes=[]
    )
    baseline = SimpleNamespace(problem=SimpleNamespace(design=None))
    question = CellQuestion(
        groups=[],
        label_channels=[],
        joints=[],
        flip_probabilities=np.zeros(0),
        label_is_protected=False,
        alternatives=None,
        is_corrected=False,
        n_draws=20,
        seed=0,
    )
    (found,) = methods.with_sampling_error(baseline, asked, question, "exact", [answer(changes[0])])
    mean, spread = np.mean(changes), np.std(changes, ddof=1)
    assert found.loss_change == pytest.approx(mean)
    assert found.loss_low == pytest.approx(mean - 0.3 - spread)
    assert found.loss_high == pytest.approx(mean + 0.5 + spread)
    (note,) = asked.notes
    assert f"Monte-Carlo error of {spread / 2:.2g}, from 4 samples" in note.text
