"""The ridge benchmark: its worst pair, its audit, its tables."""

from __future__ import annotations

import dataclasses
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import ridge
from epsilens.ridge import PrivateRidge

pytestmark = pytest.mark.filterwarnings("ignore::epsilens.errors.PrivacyLeakWarning")


def test_the_pair_is_nearly_the_worst_there_is():
    X, y, record, target, share = ridge.worst_pair()
    plain = Ridge(alpha=1.0, fit_intercept=False)
    before = plain.fit(X, y).coef_[0]
    after = plain.fit(np.vstack([X, record]), np.append(y, target)).coef_[0]
    model = PrivateRidge(
        rho=1.0, x_bound=1.0, y_bound=1.0, coef_bound=1.0, alpha=1.0, fit_intercept=False
    ).fit(X, y)
    assert abs(after - before) == pytest.approx(share)
    assert 0.99 * model.sensitivity_ <= share <= model.sensitivity_


@pytest.mark.nightly
def test_an_audit_catches_too_little_noise(monkeypatch):
    honest = ridge.audited("tight", 1.0, 400)
    # Proven at 95 %: an honest mechanism fails one audit in twenty, 400 draws prove over half.
    assert honest.shift_lower_bound <= honest.shift * 1.3
    assert honest.shift_lower_bound > 0.5 * honest.shift
    monkeypatch.setitem(ridge.OURS, "broken", {})
    draw = ridge.PrivateRidge.fit

    def too_little(self, X, y):
        self.rho, asked = 4 * self.rho, self.rho
        fitted = draw(self, X, y)
        self.rho = asked
        return fitted

    monkeypatch.setattr(ridge.PrivateRidge, "fit", too_little)
    assert not ridge.audited("broken", 1.0, 400).is_valid


def test_releases_and_table(tmp_path):
    table = ridge.generated(400, 3, seed=0)
    assert np.abs(table.X).max() <= 1
    assert np.abs(table.y).max() <= 1
    cells = ridge.released(table, 1.0, 3, seed=0)
    assert [cell.method for cell in cells] == list(ridge.OURS)
    assert cells[1].predicted > cells[0].predicted
    theirs, why = ridge.by_diffprivlib(table, np.array([1.0]), 2, 0, tmp_path)
    assert (theirs, why) == ([], "not available: run `make peers`")
    audit = ridge.Audit("tight", 1.0, 10, 0.2, math.sqrt(2))
    text = ridge.markdown([table], cells, [audit], why, 3)
    assert "| 1 | 7.29 | " in text
    assert "| tight | 1 | 10 | 0.200 | 1.414 | yes |" in text
    wild = dataclasses.replace(cells[3], loss=9e9, standard_error=8e9)
    assert "median" in ridge.markdown([table], [wild], [audit], why, 3)
    assert "falls without end" not in text
    peer = dataclasses.replace(cells[3], method="diffprivlib, ε(δ)", bottomless=0.25)
    assert f"| {table.name} | 25% |" in ridge.markdown([table], [peer], [audit], "0.6.5", 3)


def test_a_peer_that_fails_is_left_out_with_its_word(tmp_path):
    python = tmp_path / "science" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    table = ridge.generated(50, 2, seed=0)
    theirs, why = ridge.by_diffprivlib(table, np.array([1.0]), 1, 0, tmp_path)
    assert theirs == []
    assert why.startswith("not available: ")
    assert Path(sys.executable).name not in why
