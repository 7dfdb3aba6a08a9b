from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from epsilens import WhatIf
from epsilens.channels import RandomizedResponse, simulate
from epsilens.errors import InputError
from epsilens.whatif.retraining import run_seed

GRID = [0.5, 2.0]


@pytest.fixture(scope="module")
def study(survey, pipeline):
    return WhatIf(pipeline()).fit(survey.X, survey.y, survey.X_test, survey.y_test)


def test_a_run_is_a_real_scikit_learn_fit_on_the_drawn_labels(study, survey, pipeline):
    mask = np.random.default_rng(3).random(600) < 0.7
    runs = study.retrain(epsilon=GRID, groups={"g": mask}, repeats=3, random_state=7).draws()
    assert list(runs.columns) == [
        "group",
        "epsilon",
        "repeat",
        "loss_change",
        "accuracy_change",
        "auc_change",
    ]
    before = study.baseline_.outcomes
    codes = (survey.y == "yes").to_numpy().astype(np.int64)
    model = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000)
    for row in runs.itertuples():
        drawn = codes.copy()
        generator = np.random.default_rng(run_seed(7, "g", row.epsilon, row.repeat))
        drawn[mask] = simulate(RandomizedResponse(2, row.epsilon), codes[mask], generator)
        assert (drawn != codes).any()
        p = pipeline(model).fit(survey.X, drawn).predict_proba(survey.X_test)[:, 1]
        truth = survey.y_test == "yes"
        assert row.loss_change == pytest.approx(log_loss(truth, p) - before.loss, abs=1e-8)
        accuracy = accuracy_score(truth, p > 0.5) - before.accuracy
        assert row.accuracy_change == pytest.approx(accuracy, abs=1e-12)
        assert row.auc_change == pytest.approx(roc_auc_score(truth, p) - before.auc, abs=1e-9)


def test_the_frame_is_the_mean_and_the_quantiles_of_the_runs(study):
    result = study.retrain(epsilon=GRID, repeats=12)
    runs, frame = result.draws(), result.to_frame()
    for row in frame.itertuples():
        mine = runs[runs["epsilon"] == row.epsilon]["loss_change"]
        assert row.loss_change == pytest.approx(mine.mean())
        assert row.loss_change_low == pytest.approx(mine.quantile(0.05))
        assert row.loss_change_high == pytest.approx(mine.quantile(0.95))


def test_a_run_does_not_depend_on_which_others_are_done(study):
    few = study.retrain(epsilon=[2.0], repeats=2).draws()
    many = study.retrain(epsilon=GRID, repeats=5).draws()
    same = many[(many["epsilon"] == 2.0) & (many["repeat"] < 2)]
    np.testing.assert_allclose(few["loss_change"], same["loss_change"], atol=1e-8)


class KilledError(Exception):
    pass


def test_a_killed_retraining_resumes(study, tmp_path):
    path = tmp_path / "runs.jsonl"
    question = {"epsilon": [0.5, 1.0, 2.0], "repeats": 4, "checkpoint": path}

    def kill(done, total, what):
        if done >= 8:
            raise KilledError

    with pytest.raises(KilledError):
        study.retrain(**question, progress=kill)
    kept = path.read_text().splitlines()
    assert len(kept) == 1 + 8
    # The kill may have come in the middle of a line.
    path.write_text("\n".join(kept) + "\n" + '{"group": "all", "eps')
    seen = []
    resumed = study.retrain(**question, progress=lambda done, total, what: seen.append(done))
    assert seen == [12]
    whole = study.retrain(epsilon=[0.5, 1.0, 2.0], repeats=4)
    np.testing.assert_allclose(
        resumed.draws()["loss_change"], whole.draws()["loss_change"], atol=1e-12
    )
    assert len(path.read_text().splitlines()) == 1 + 12


def test_a_finished_checkpoint_needs_no_work(study, tmp_path):
    path = tmp_path / "runs.jsonl"
    study.retrain(epsilon=GRID, repeats=2, checkpoint=path)
    seen = []
    study.retrain(epsilon=GRID, repeats=2, checkpoint=path, progress=lambda *s: seen.append(s))
    assert seen == []


def test_a_checkpoint_of_another_study_is_refused_and_kept(study, tmp_path):
    path = tmp_path / "runs.jsonl"
    study.retrain(epsilon=GRID, repeats=2, checkpoint=path)
    before = path.read_text()
    with pytest.raises(InputError, match="another study"):
        study.retrain(epsilon=GRID, repeats=2, checkpoint=path, random_state=1)
    assert path.read_text() == before


def test_other_people_under_the_same_name_are_not_taken_from_a_checkpoint(study, tmp_path):
    path = tmp_path / "runs.jsonl"
    rng = np.random.default_rng(4)
    order = rng.permutation(600)
    one, other = np.zeros(600, dtype=bool), np.zeros(600, dtype=bool)
    one[order[:300]], other[order[300:]] = True, True
    study.retrain(epsilon=GRID, groups={"g": one}, repeats=2, checkpoint=path)
    question = {"epsilon": GRID, "groups": {"g": other}, "repeats": 2}
    resumed = study.retrain(**question, checkpoint=path).draws()
    fresh = study.retrain(**question).draws()
    np.testing.assert_allclose(resumed["loss_change"], fresh["loss_change"], atol=1e-12)
    # A further group may join, and nobody's membership can be read from the file.
    study.retrain(epsilon=GRID, groups={"g": one, "h": other}, repeats=2, checkpoint=path)
    assert '"g"' not in path.read_text()


def test_other_budgets_of_the_same_sum_are_another_study(study, tmp_path):
    path = tmp_path / "runs.jsonl"
    question = {"protect": ["region", "smokes"], "repeats": 2}
    one, other = {"region": 0.2, "smokes": 3.0}, {"region": 3.0, "smokes": 0.2}
    study.retrain(**question, epsilon=one, checkpoint=path)
    with pytest.raises(InputError, match="another study"):
        study.retrain(**question, epsilon=other, checkpoint=path)


def test_a_file_that_is_no_checkpoint_is_left_alone(study, tmp_path):
    path = tmp_path / "survey.csv"
    path.write_text("age,smokes\n31,yes\n")
    with pytest.raises(InputError, match="not a checkpoint"):
        study.retrain(epsilon=GRID, repeats=2, checkpoint=path)
    assert path.read_text() == "age,smokes\n31,yes\n"
    with pytest.raises(InputError, match="cannot be read"):
        study.retrain(epsilon=GRID, repeats=2, checkpoint=tmp_path)


def test_damaged_and_unwritable_checkpoints_are_named(study, tmp_path):
    path = tmp_path / "runs.jsonl"
    study.retrain(epsilon=GRID, repeats=2, checkpoint=path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "not json", *lines[1:]]) + "\n")
    with pytest.raises(InputError, match="damaged"):
        study.retrain(epsilon=GRID, repeats=2, checkpoint=path)
    with pytest.raises(InputError, match="folder must exist"):
        study.retrain(epsilon=GRID, repeats=2, checkpoint=tmp_path / "no" / "folder.jsonl")
