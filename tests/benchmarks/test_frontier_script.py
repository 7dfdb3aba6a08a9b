# SPDX-License-Identifier: Apache-2.0
"""The benchmark of mechanisms: parts are kept, real trainings are real, a preview that is off is found."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import frontier
from epsilens.models import private_logistic
from epsilens.models.gaussian_release import FITS

pytestmark = pytest.mark.filterwarnings("ignore::epsilens.errors.PrivacyLeakWarning")


@pytest.fixture(scope="module")
def table() -> frontier.Table:
    return frontier.generated(300, 300, seed=1)


def test_the_generated_table_is_the_same_every_time(table):
    again = frontier.generated(300, 300, seed=1)
    assert table.train.equals(again.train)
    assert (table.train.shape, table.test.shape) == ((300, 16), (300, 16))
    # 600 draws at 30 %: four standard errors are 7.5 %.
    bad = float(np.mean([*(table.train["credit"] == "bad"), *(table.test["credit"] == "bad")]))
    assert bad == pytest.approx(0.3, abs=0.075)


def test_a_part_is_made_once_and_again_only_under_other_settings(tmp_path):
    made = []

    def make() -> list[int]:
        made.append(1)
        return [len(made)]

    kept = frontier.Kept(tmp_path / "parts")
    asked = {"table": "t", "what": "real", "at 0": 1.0}
    assert kept.part(asked, make) == [1]
    assert kept.part(asked, make) == [1]
    assert kept.part({**asked, "at 0": 2.0}, make) == [2]
    stored = frontier.Kept(tmp_path / "parts", is_stored_only=True)
    assert stored.part(asked, make) == [1]
    assert stored.part({**asked, "at 0": 3.0}, make) is None

    def dies() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.part({**asked, "at 0": 4.0}, dies)
    assert kept.part({**asked, "at 0": 4.0}, make) == [3]
    assert len(list((tmp_path / "parts").iterdir())) == 3


def test_real_trainings_are_not_seeded_and_leave_nothing_behind(table):
    before = private_logistic.penalised_minimum
    runs = [
        frontier.real_trainings(table.task, "output-perturbation", "answer", 1.0, 3)["loss"]
        for _ in range(2)
    ]
    assert len({*runs[0], *runs[1]}) == 6
    assert private_logistic.penalised_minimum is before
    rows, codes = table.task.X, table.task.y.astype(float)
    assert FITS.total(FITS.digests(rows, codes), 1.0, limit=None).rho == pytest.approx(1.0)


def test_the_minimum_is_found_once_and_is_the_right_one(table, monkeypatch):
    """Without noise a training gives the penalised minimum of its own budget."""
    monkeypatch.setattr(
        frontier.PrivateLogisticRegression, "_noisy", lambda self, exact, release, generator: exact
    )
    for epsilon in (0.5, 4.0):
        plan = frontier.plan_of(table.task, "output-perturbation", epsilon, "record")
        found = frontier.real_trainings(table.task, "output-perturbation", "record", epsilon, 2)[
            "loss"
        ]
        rows = private_logistic.default_bounds(table.task.x_bound).rows
        exact = private_logistic.penalised_minimum(
            rows(table.task.X),
            table.task.y,
            1,
            penalty=plan.alpha,
            x_bound=table.task.x_bound,
        )
        z = (rows(table.task.X_test) @ exact)[:, 0]
        loss = float(np.mean(np.logaddexp(0.0, z) - table.task.y_test * z))
        assert found == pytest.approx([loss - table.task.baseline.loss] * 2, abs=1e-9)


def test_previews_of_the_two_claims_have_noise_of_their_own(table):
    runs = [
        np.array(
            frontier.previews(table.task, "output-perturbation", claim, [1.0], n_runs=30)[0][
                "runs"
            ]["loss"]
        )
        for claim in frontier.CLAIMS
    ]
    # 30 independent pairs: a correlation beyond 0.65 has a probability below 1e-4.
    assert abs(np.corrcoef(runs)[0, 1]) < 0.65


@pytest.mark.parametrize("advantage", frontier.ADVANTAGES)
def test_epsilon_at_an_advantage_has_this_advantage(table, advantage):
    epsilon = frontier.epsilon_at(table.task, "noisy-descent", "record", advantage)
    plan = frontier.plan_of(table.task, "noisy-descent", epsilon, "record")
    assert plan.advantage == pytest.approx(advantage, rel=1e-4)


def test_a_preview_that_is_off_is_found():
    rng = np.random.default_rng(0)
    real = list(rng.normal(0.0, 1.0, 40))
    honest = frontier.beside(list(rng.normal(0.0, 1.0, 39)), (-1.645, 1.645), real)
    shifted = frontier.beside(list(rng.normal(1.5, 1.0, 39)), (-0.145, 3.145), real)
    error = math.hypot(honest["preview_standard_error"], honest["real_standard_error"])
    assert honest["apart"] == pytest.approx((honest["preview"] - honest["real"]) / error)
    cells = [
        frontier.Cell("t", "noisy-descent", "record", epsilon, 0.1, loss, loss)
        for epsilon, loss in ((1.0, honest), (2.0, shifted))
    ]
    assert abs(honest["apart"]) < 4 < abs(shifted["apart"])
    found = frontier.summary(cells)
    assert (found["cells"], found["within_two"]) == (2, 0.5)
    assert found["worst"] == abs(shifted["apart"])
    assert found["coverage"] == (honest["covered"] + shifted["covered"]) / 2
    assert frontier.summary([]) is None


def test_tables_show_what_was_run_and_name_what_was_not(table, tmp_path, monkeypatch):
    budgets = (0.25, 1.0)
    monkeypatch.setattr(frontier, "FAST", ("output-perturbation",))
    tables = {"generated": table}
    work = frontier.planned(tables, 3, budgets=budgets)
    kept = frontier.Kept(tmp_path)
    wanted = {"preview", "equal advantage"}
    for part in work:
        is_first = part.settings.get("at 2") == 1.0 and part.settings["at 1"] == "record"
        if part.settings["what"] in wanted or is_first:
            kept.part(part.settings, part.make)
    parts = frontier.collected(work, frontier.Kept(tmp_path, is_stored_only=True))
    result = frontier.result_of(parts, tables, 3)
    assert json.loads(json.dumps(result)) == result
    assert result["agreement"]["generated"]["loss"]["cells"] == 1
    assert result["not_run"] == [
        "generated: randomised-response",
        "generated: corrected",
        "generated: real trainings by output-perturbation, record protected at ε = 0.25",
        "generated: real trainings by output-perturbation, answer protected at ε = 0.25, 1",
    ]
    text = frontier.markdown(result)
    assert "**Not run:** generated: randomised-response;" in text
    assert "| generated | output-perturbation, record | " in text
    assert "Opacus." not in text
    (cell,) = [one for one in frontier.cells_of(parts) if one.is_checked]
    shown = f"{cell.loss['preview']:.4f}, {cell.loss['real']:.4f} ± "
    assert shown in text


def test_the_better_of_the_peers_rows_is_compared():
    def part(rows: str, loss: float) -> dict:
        found = {
            "epsilon": 1.0,
            "rows": rows,
            "settings": {},
            "peer": [loss, loss + 0.001],
            "advantage": 0.2,
            "own_advantage": 0.1,
            "ours": [0.1],
            "equal_epsilon": 2.0,
            "ours_at_equal_advantage": [0.05],
        }
        return {"table": "adult", "what": "peer", "found": found}

    nothing = {"table": "adult", "what": "peer", "found": None}
    rows = frontier.peer_rows(
        [part("as encoded", 0.3), part("within the bound", 0.2), part("narrow", 0.1), nothing]
    )
    assert [(row["rows"], row["peer_rows"]) for row in rows] == [
        ("default", "within the bound"),
        ("narrow", "narrow"),
    ]
    assert rows[0]["peer"] == pytest.approx(0.2005)
