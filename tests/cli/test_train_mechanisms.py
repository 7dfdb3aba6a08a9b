# SPDX-License-Identifier: Apache-2.0
"""`epsilens train` with mechanisms by other libraries: files, claims, totals, refusals, neighbours."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import epsilens.mechanisms.audits as audits
import epsilens.mechanisms.synthetic_aim as aim
from epsilens.cli import main
from epsilens.cli.train import TRAINABLE
from epsilens.document import EarlierRelease, TrainingDocument, load_document
from epsilens.errors import InputError
from epsilens.mechanisms import MECHANISMS, gaussian_advantage, mechanism_class
from epsilens.mechanisms._composition import compose, replaced_budget
from epsilens.mechanisms.dp_ebm import DPEBM
from epsilens.mechanisms.synthetic_aim import SyntheticAIM
from epsilens.models.dp_sgd_settings import DPSGDSettings
from epsilens.private import load_model

LABEL = ("--label=smokes", "--categories=smokes=no|yes")
RECORD = ("--protects=record", "--range=age=17:90", "--categories=job=a|b|c")
OPTIONS = {
    "dp-sgd": ("--mechanism=dp-sgd", "--x-bound=3"),
    "dp-ebm": ("--mechanism=dp-ebm",),
    "synthetic-aim": ("--mechanism=synthetic-aim",),
}
pytest.importorskip("opacus")


def make_people(n: int = 60, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    age = random.integers(17, 90, n)
    return pd.DataFrame(
        {
            "age": age,
            "job": random.choice(["a", "b", "c"], n),
            "smokes": np.where(age + random.normal(0, 20, n) > 50, "yes", "no"),
        }
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Few steps of DP-SGD, and counts without noise: a real AIM takes ten seconds."""
    monkeypatch.setattr("epsilens.models.dp_sgd_settings._EPOCHS", 1)
    monkeypatch.setattr(SyntheticAIM, "measurement", lambda self, sizes, n: lambda bins: bins)
    monkeypatch.setattr(
        aim,
        "synthetic_bins",
        lambda bins, n, seed: bins[np.random.default_rng(seed).integers(0, n, n)],
    )


@pytest.fixture
def survey(tmp_path) -> Path:
    (tmp_path / "data").mkdir()
    make_people().to_csv(tmp_path / "data" / "survey.csv", index=False)
    return tmp_path / "data" / "survey.csv"


def run(data: Path, *options: object, out: Path) -> int:
    fixed = ("train", data, *LABEL, "--epsilon=1", "--delta=1e-4", "--out", out)
    return main([*map(str, fixed), *map(str, options)])


def receipt(out: Path) -> TrainingDocument:
    found = load_document(out.with_name(f"{out.stem}.receipt.json"))
    assert isinstance(found, TrainingDocument)
    return found


def test_every_mechanism_of_the_protocol_is_trained():
    assert tuple(MECHANISMS) == TRAINABLE
    added = {name for name in MECHANISMS if mechanism_class(name).neighbours != "replaced"}
    assert added == set(OPTIONS)


@pytest.mark.parametrize("mechanism", OPTIONS)
@pytest.mark.parametrize("claim", [(), RECORD])
def test_the_file_predicts_as_the_model_did(survey, tmp_path, monkeypatch, mechanism, claim):
    kind, found = mechanism_class(mechanism), []
    before = kind.release
    monkeypatch.setattr(
        kind, "release", lambda training: found.append(before(training)) or found[-1]
    )
    out = tmp_path / "model.json"
    assert run(survey, *OPTIONS[mechanism], *claim, out=out) == 0
    content = json.loads(out.read_text("utf-8"))
    assert content["model"] == ("additive" if mechanism == "dp-ebm" else "logistic")
    # Whatever trained it is not needed.
    for package in ("interpret", "opacus", "torch", "mbi"):
        monkeypatch.setitem(sys.modules, package, None)
    loaded = load_model(out)
    new = pd.DataFrame({"job": ["a", "z", None], "age": [40.0, None, 1e300], "extra": 1})
    for table in (make_people(), new):
        own = found[0].model.predict_proba(found[0].encoder.transform(table))
        np.testing.assert_array_equal(loaded.predict_proba(table), own)
        assert loaded.predict(table).tolist() == [["no", "yes"][one] for one in own.argmax(axis=1)]
    assert loaded.classes_.tolist() == ["no", "yes"]
    assert loaded[-1].receipt_ == content["receipt"]


def test_the_receipts_state_what_epsilon_and_the_advantage_are_about(survey, tmp_path):
    for mechanism, options in OPTIONS.items():
        for name, claim in (("answer", ()), ("record", RECORD)):
            out = tmp_path / f"{mechanism}-{name}.json"
            assert run(survey, *options, *claim, out=out) == 0
            found = receipt(out)
            assert (found.epsilon, found.delta, found.protects) == (1.0, 1e-4, name)
            assert found.neighbours.startswith(
                "for ε and δ: a table and the same with one record more, both trained with noise and "
                "batches planned for the number of records that is stated; for the advantage: "
                "tables with equally many rows that differ in one "
            )
            # About a replaced record.
            assert found.total.epsilon == found.epsilon * 2 or mechanism == "dp-ebm"
            assert found.total.advantage == found.advantage
    ebm = [receipt(tmp_path / f"dp-ebm-{name}.json") for name in ("answer", "record")]
    for one, protects in zip(ebm, ("answer", "record"), strict=True):
        plan = DPEBM(1.0, 1e-4, protects, is_label_alone=True)
        assert (one.mu, one.sigma, one.n_steps, one.x_bound) == (plan.mu, None, None, None)
        assert one.advantage == plan.advantage == gaussian_advantage(plan.mu)
    table = receipt(tmp_path / "synthetic-aim-record.json")
    plan = SyntheticAIM(1.0, 1e-4, "record")
    assert (table.rho, table.mu, table.advantage) == (plan.rho, None, plan.advantage)
    steps = receipt(tmp_path / "dp-sgd-answer.json")
    settings = DPSGDSettings.linear(1.0, 1e-4, x_bound=3.0, n_records=60)
    assert (steps.n_steps, steps.mu, steps.rho) == (settings.plan(60).n_steps, None, None)
    multiplier = settings.calibration(60).noise_multiplier
    assert steps.sigma == pytest.approx(multiplier * settings.clip, rel=1e-5)
    # A protected feature moves the row, so the claim is that of a replaced record.
    both = ("--protect=age", "--range=age=17:90")
    assert run(survey, *OPTIONS["dp-ebm"], *both, out=tmp_path / "both.json") == 0
    assert receipt(tmp_path / "both.json").advantage == ebm[1].advantage
    load_model(tmp_path / "both.json")


@pytest.mark.parametrize("mechanism", OPTIONS)
def test_a_seed_makes_it_a_simulation(survey, tmp_path, capsys, mechanism):
    texts = []
    for name in "ab":
        out = tmp_path / f"{name}.json"
        assert run(survey, *OPTIONS[mechanism], "--seed=3", out=out) == 0
        said = capsys.readouterr()
        assert "a seed was given, so this is a simulation and protects nobody" in said.err
        assert "Do not publish this model." in said.out
        assert "(proven)" not in said.out
        content = json.loads(out.read_text("utf-8"))
        assert content["receipt"]["simulated"] is True
        texts.append((content["coefficients"], content["terms"], content["intercept"]))
        load_model(out)
    assert texts[0] == texts[1]


def test_the_synthetic_table_stands_beside_the_model(survey, tmp_path, capsys):
    people = make_people()
    people["since"] = pd.date_range("2020-01-01", periods=len(people)).strftime("%Y-%m-%d")
    people.to_csv(survey, index=False)
    out, path = tmp_path / "model.json", tmp_path / "model.synthetic.csv"
    options = (*OPTIONS["synthetic-aim"], "--range=since=2020-01-01:2021-01-01")
    path.write_text("mine")
    assert run(survey, *options, out=out) == 2
    assert "but 'model.synthetic.csv' exists" in capsys.readouterr().err
    assert path.read_text() == "mine"
    assert run(survey, *options, "--force", out=out) == 0
    assert f"Written: {out}, {path} and " in capsys.readouterr().out
    table = pd.read_csv(path)
    assert table.columns.tolist() == ["age", "job", "since", "smokes"]
    assert len(table) == len(people)
    assert set(table["smokes"]) <= {"no", "yes"}
    assert set(table["job"]) <= {"a", "b", "c"}
    assert table["age"].nunique() <= 16
    assert table["age"].between(17, 90).all()
    assert pd.to_datetime(table["since"]).between("2020-01-01", "2021-01-01").all()
    # The table is encoded as the model's own training records were.
    assert load_model(out).predict(table).shape == (len(people),)
    # A path that is the data is refused, with or without --force.
    data = survey.with_name("x.synthetic.csv")
    people.to_csv(data, index=False)
    assert run(data, *options, "--force", out=survey.with_name("x.json")) == 2


def test_several_classes(survey, tmp_path, capsys):
    for mechanism, options in OPTIONS.items():
        out = tmp_path / f"{mechanism}.json"
        code = run(survey, *options, "--label=job", "--categories=job=a|b|c|d", out=out)
        if mechanism == "dp-ebm":
            assert code == 2
            line = capsys.readouterr().err
            assert "`--mechanism dp-ebm` needs a label of two classes, got 4" in line
            assert line.count("\n") == 1
        else:
            assert code == 0
            chances = load_model(out).predict_proba(make_people())
            assert chances.shape == (60, 4)
            capsys.readouterr()


def test_what_cannot_be_released_is_refused_before_anything_is_read(
    survey, tmp_path, capsys, monkeypatch
):
    find, read = importlib.util.find_spec, []
    monkeypatch.setattr("epsilens.cli.training_input.read_training", lambda *a, **n: read.append(a))
    for mechanism, package, extra in (
        ("dp-sgd", "opacus", "torch"),
        ("dp-ebm", "interpret", "trees"),
        ("synthetic-aim", "mbi", "synthetic"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(
                importlib.util,
                "find_spec",
                lambda name, *a, gone=package: None if name == gone else find(name, *a),
            )
            assert run(survey, *OPTIONS[mechanism], out=tmp_path / "model.json") == 2
        line = capsys.readouterr().err
        assert f'pip install "epsilens[{extra}]"' in line
        assert line.count("\n") == 1
    for audit, words in (
        (None, "has not been attacked by us yet"),
        (type("Broken", (), {"is_broken": True, "sentence": "A claim is broken."}), "is broken"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(audits, "stored_audit", lambda name, audit=audit: audit)
            assert run(survey, *OPTIONS["dp-ebm"], out=tmp_path / "model.json") == 2
            assert words in capsys.readouterr().err
    assert not read
    monkeypatch.undo()
    assert run(survey, "--mechanism=dp-sgd", out=tmp_path / "model.json") == 2
    assert "`--x-bound` must be declared" in capsys.readouterr().err
    for options in OPTIONS.values():
        assert run(survey, *options, "--epsilon=1e6", out=tmp_path / "model.json") == 2
        assert capsys.readouterr().err.count("\n") == 1
    for option in ("--x-bound=1e-200", "--x-bound=1e200", "--delta=1e-200", "--n-steps=9"):
        assert run(survey, *OPTIONS["dp-sgd"], option, out=tmp_path / "model.json") == 2
        found = capsys.readouterr().err
        assert f"`{option.split('=')[0]}` must " in found
        assert found.count("\n") == 1
    assert run(survey, *OPTIONS["dp-ebm"], "--coef-bound=1", out=tmp_path / "model.json") == 2
    assert "belongs to `--model ridge`" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.json"))


def test_a_receipt_that_contradicts_the_model_is_refused(survey, tmp_path):
    bad = tmp_path / "bad.json"
    for mechanism, changes in {
        "dp-sgd": [
            ({"epsilon": 0.1}, "ε, δ and the noise"),
            ({"sigma": 1.0}, "ε, δ and the noise"),
            ({"n_steps": 7}, "the noise"),
            ({"advantage": 0.01}, "the advantage"),
            ({"mu": 0.2}, "μ and ρ"),
            ({"x_bound": 2.0}, "x_bound"),
        ],
        "dp-ebm": [
            ({"epsilon": 0.1}, "ε, δ and μ"),
            ({"delta": 1e-9}, "ε, δ and μ"),
            ({"advantage": 0.01}, "μ and the advantage"),
            ({"rho": None}, "μ and ρ"),
            ({"columns": ["age", "smokes"]}, "ε, δ and μ"),
            ({"n_steps": 7}, "the mechanism"),
        ],
        "synthetic-aim": [
            ({"epsilon": 0.1}, "ε, δ and ρ"),
            ({"epsilon": 1e-6}, "ε, δ and ρ"),
            ({"rho": None}, "ε, δ and ρ"),
            ({"advantage": 0.01}, "ρ and the advantage"),
            ({"x_bound": 1.0}, "x_bound"),
        ],
    }.items():
        out = tmp_path / f"{mechanism}.json"
        assert run(survey, *OPTIONS[mechanism], out=out) == 0
        good = json.loads(out.read_text("utf-8"))
        total = good["receipt"]["total"]
        smaller = [{"delta": total["delta"] / 2}, {"advantage": total["advantage"] / 2}]
        if mechanism != "dp-ebm":
            smaller.append({"epsilon": total["epsilon"] / 2})
        changes += [({"total": total | change}, "the total") for change in smaller]
        for change, what in changes:
            content = good | {"receipt": good["receipt"] | change}
            bad.write_text(json.dumps(content), encoding="utf-8")
            with pytest.raises(InputError) as caught:
                load_model(bad)
            assert str(caught.value).endswith(f"contradicts its receipt: {what}.")
    good["terms"] = [{"cuts": [], "scores": [0.0]}]
    bad.write_text(json.dumps(good), encoding="utf-8")
    with pytest.raises(InputError, match="is malformed"):
        load_model(bad)


def test_a_model_that_replaces_another_leaves_no_table_of_it(survey, tmp_path, capsys):
    out = tmp_path / "model.json"
    assert run(survey, *OPTIONS["synthetic-aim"], out=out) == 0
    assert (tmp_path / "model.synthetic.csv").exists()
    assert run(survey, *OPTIONS["dp-ebm"], out=out) == 2
    assert (tmp_path / "model.synthetic.csv").exists()
    assert run(survey, *OPTIONS["dp-ebm"], "--force", out=out) == 0
    assert not (tmp_path / "model.synthetic.csv").exists()
    assert "floating-point-noise" in {note.code for note in receipt(out).notes}


def test_receipts_of_all_mechanisms_add_up(survey, tmp_path):
    after: list[object] = []
    own = []
    options = {"noisy-descent": ("--mechanism=noisy-descent", "--x-bound=3"), **OPTIONS}
    for mechanism, chosen in options.items():
        out = tmp_path / f"{mechanism}.json"
        assert run(survey, *chosen, *after, out=out) == 0
        after += ["--after", tmp_path / f"{mechanism}.receipt.json"]
        own.append(receipt(out))
        total = own[-1].total
        assert total.n_releases == len(own)
        alone = 1 - np.prod([1 - one.advantage for one in own])
        assert max(one.advantage for one in own) <= total.advantage <= alone + 1e-12
    # 1e-4 of the Gaussian ones, (1 + e)·1e-4 of the others.
    assert total.delta == pytest.approx((2 + 2 * (1 + np.e)) * 1e-4)
    assert 4.0 < total.epsilon <= 2 + 2 + 2
    # The ledger counts a replaced record.
    assert run(survey, *OPTIONS["dp-sgd"], "--budget=8.5", out=tmp_path / "more.json") == 2


def test_a_replacement_is_a_removal_and_an_addition():
    """Three distributions, each next to the middle one: the bound holds at every ε, and is reached."""
    random = np.random.default_rng(0)
    for _ in range(200):
        middle, epsilon = random.dirichlet(np.ones(4)), random.uniform(0.1, 1.5)

        def near(middle=middle, epsilon=epsilon):
            shifted = middle * np.exp(random.uniform(-epsilon, epsilon, 4) / 2)
            return shifted / shifted.sum()

        one, other = near(), near()
        delta = max(
            np.maximum(p - np.exp(epsilon) * q, 0).sum()
            for left in (one, other)
            for p, q in ((left, middle), (middle, left))
        )
        twice, both = replaced_budget("dp-sgd", epsilon, delta)
        assert np.maximum(one - np.exp(twice) * other, 0).sum() <= both + 1e-12
    line = EarlierRelease(receipt="a", mechanism="dp-sgd", epsilon=2, delta=1e-5, advantage=0.2)
    total = compose([line, line.model_copy(update={"receipt": "b"})])
    assert total.epsilon <= 4.0
    assert total.advantage == pytest.approx(1 - 0.8**2)


NASTY = [["", "", ""], ["?", "NA", "nan"], ["1e999", "z", "maybe"], ["x;y", "a|b", "YES"]]


@pytest.mark.parametrize("mechanism", OPTIONS)
def test_a_neighbour_changes_nothing_but_the_model(survey, tmp_path, capsys, mechanism):
    out, options = tmp_path / "model.json", (*OPTIONS[mechanism], *RECORD, "--seed=3", "--force")
    people = make_people(24).astype(object)
    # One person of a class: a neighbour has none.
    people["smokes"] = ["yes"] + ["no"] * 23

    def trained(table: pd.DataFrame) -> tuple[object, ...]:
        table.to_csv(survey, index=False)
        code, said = run(survey, *options, out=out), capsys.readouterr()
        content = json.loads(out.read_text("utf-8"))
        terms = content.pop("terms")
        shape = [np.shape(content.pop(name)) for name in ("coefficients", "intercept")]
        assert content["receipt"].pop("time")
        for path in tmp_path.glob("model.*"):
            path.unlink()
        return code, said.out, said.err, shape, terms is None, content

    before = trained(people)
    assert before[0] == 0
    for record in NASTY:
        neighbour = people.copy()
        neighbour.iloc[0] = record
        assert trained(neighbour) == before


@pytest.mark.slow
def test_a_real_synthetic_table(survey, tmp_path, monkeypatch):
    monkeypatch.undo()
    pytest.importorskip("mbi")
    out = tmp_path / "model.json"
    options = (*OPTIONS["synthetic-aim"], "--drop=job", "--bins=age=17:90:3")
    assert run(survey, *options, out=out) == 0
    assert len(pd.read_csv(tmp_path / "model.synthetic.csv")) == 60
    assert load_model(out).predict_proba(make_people()).shape == (60, 2)
