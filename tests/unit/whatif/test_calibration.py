from __future__ import annotations

import numpy as np
import pytest

from epsilens import WhatIf
from epsilens.errors import InputError


@pytest.fixture(scope="module")
def study(survey, pipeline):
    return WhatIf(pipeline()).fit(survey.X, survey.y, survey.X_test, survey.y_test)


def test_the_line_is_the_least_squares_line(study):
    grid = [0.1, 0.5, 1.0, 2.0, 4.0]
    line = study.calibrate(epsilon=grid, repeats=4)
    x = study.estimate(epsilon=grid, method="influence").to_frame()["loss_change"]
    y = study.retrain(epsilon=grid, repeats=4).to_frame()["loss_change"]
    slope, intercept = np.polyfit(x, y, 1)
    assert (line.slope, line.intercept) == pytest.approx((slope, intercept), rel=1e-8)
    assert line.n_cells == 5
    assert line.correlation == pytest.approx(np.corrcoef(x, y)[0, 1])
    fitted = line.apply(study.estimate(epsilon=[0.7], method="influence"))
    assert (fitted["loss_change_low"] < fitted["loss_change"]).all()
    assert (fitted["loss_change"] < fitted["loss_change_high"]).all()


@pytest.mark.slow
def test_a_calibrated_first_order_covers_the_truth(study):
    """Fitted at five ε, judged at others: the truth lies in the 90 % interval."""
    line = study.calibrate(epsilon=[0.05, 0.4, 0.9, 1.6, 3.0], repeats=200)
    others = [0.2, 0.6, 1.2, 2.2]
    fitted = line.apply(study.estimate(epsilon=others, method="influence"))
    truth = study.retrain(epsilon=others, repeats=200, random_state=9).to_frame()["loss_change"]
    inside = (truth >= fitted["loss_change_low"]) & (truth <= fitted["loss_change_high"])
    assert inside.sum() >= 3  # of four, at 90 % each
    plain = study.estimate(epsilon=others, method="influence").to_frame()["loss_change"]
    assert np.abs(fitted["loss_change"] - truth).max() < 0.25 * np.abs(plain - truth).max()


def test_a_line_is_for_its_own_rung_and_columns(study):
    line = study.calibrate(epsilon=[0.5, 1.0, 2.0], repeats=2)
    with pytest.raises(InputError, match="method='newton'"):
        line.apply(study.estimate(epsilon=1.0, method="newton"))
    with pytest.raises(InputError, match="region"):
        line.apply(study.estimate(protect="region", epsilon=1.0, method="influence"))


def test_too_few_cells_make_no_line(study):
    with pytest.raises(InputError, match="at least 3 cells"):
        study.calibrate(epsilon=[1.0, 2.0], repeats=2)
