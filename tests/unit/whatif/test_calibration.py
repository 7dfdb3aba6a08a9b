from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from epsilens import LossChangeEstimate, WhatIf
from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
from epsilens.errors import InputError
from epsilens.whatif.result import fit_calibration


@pytest.fixture(scope="module")
def study(survey, pipeline):
    return WhatIf(pipeline()).fit(survey.X, survey.y, survey.X_test, survey.y_test)


def answer(changes):
    """Give an estimate with these changes, at as many ε."""
    start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    cells = [
        WhatIfCell(
            group="all",
            epsilon=float(number),
            record_epsilon=float(number),
            method="influence",
            loss_change=change,
        )
        for number, change in enumerate(changes, start=1)
    ]
    origin = Provenance(method="influence", settings={"protect": ["smokes"]})
    document = WhatIfDocument(provenance=origin, baseline=start, cells=cells)
    return LossChangeEstimate(document, (np.zeros(0),) * len(cells))


def test_the_interval_is_that_of_a_new_observation():
    """Against statsmodels: 90 % for one more retraining, wider away from what was calibrated."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 0.1, 8)
    y = 0.01 + 1.7 * x + 0.02 * rng.standard_normal(8)
    new = np.array([-0.2, 0.05, 0.4])
    fitted = fit_calibration(answer(x), answer(y)).apply(answer(new))
    twin = sm.OLS(y, sm.add_constant(x)).fit().get_prediction(sm.add_constant(new))
    low, high = twin.conf_int(obs=True, alpha=0.1).T
    assert fitted["loss_change"].tolist() == pytest.approx(twin.predicted_mean.tolist())
    assert fitted["loss_change_low"].tolist() == pytest.approx(low.tolist())
    assert fitted["loss_change_high"].tolist() == pytest.approx(high.tolist())


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
