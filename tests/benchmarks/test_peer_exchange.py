# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "peers"))

import numpy as np
import pytest
from exchange import Answer, Method, Problem, measure, read_answers, write_answers

import timing

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers"
FAKE = """
import sys
sys.path.insert(0, {exchange!r})
import numpy as np
from exchange import Method, main

def first_order(problem):
    return problem.cells(problem.y - 0.5)

def broken(problem):
    raise RuntimeError("no such solver")

main("numpy", {{
    "sums": Method("a sum", lambda problem: problem, first_order, notes=lambda p: {{"steps": 3}}),
    "broken": Method("nothing", lambda problem: problem, broken),
}})
"""


def make_problem(n: int = 60, p: int = 3, *, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    X, X_test = rng.normal(size=(n, p)), rng.normal(size=(n // 2, p))
    return Problem(
        X=X,
        y=(rng.random(n) < 0.5).astype(float),
        X_test=X_test,
        y_test=(rng.random(n // 2) < 0.5).astype(float),
        groups=np.array([rng.random(n) < 0.3, rng.random(n) < 0.6]),
        epsilon=np.array([0.1, 1.0, 5.0]),
        penalty=0.01,
        theta=rng.normal(size=p),
    )


def make_answer(**changes: object) -> Answer:
    fields: dict = {
        "library": "fake",
        "version": "1.0",
        "method": "sums",
        "calls": "a sum",
        "wall_seconds": [0.2, 0.1],
        "cpu_seconds": [0.2, 0.1],
        "peak_bytes": 5,
        "values": [[1.0, None], [2.0, 3.0]],
    }
    return Answer(**{**fields, **changes})


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with a peer that knows one method, and another that fails."""
    text = FAKE.format(exchange=str(PEERS))
    (tmp_path / "with_fake.py").write_text(text)
    return tmp_path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "problem.npz"
    make_problem().save(path)
    return path


def test_a_problem_comes_back_as_it_was(file: Path) -> None:
    before, after = make_problem(), Problem.load(file)
    for name in ("X", "y", "X_test", "y_test", "groups", "epsilon", "theta"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))
    assert after.penalty == before.penalty
    assert after.groups.dtype == bool


def test_cells_are_sums_over_the_group_times_the_flip_probability() -> None:
    problem = make_problem()
    contributions = np.arange(60.0)
    cells = problem.cells(contributions)
    for g, mask in enumerate(problem.groups):
        for e, epsilon in enumerate(problem.epsilon):
            total = sum(c for c, inside in zip(contributions, mask, strict=True) if inside)
            assert cells[g, e] == pytest.approx(total / (1 + np.exp(epsilon)), rel=1e-12)
    assert problem.n_cells == cells.size


def test_answers_come_back_as_they_were(tmp_path: Path) -> None:
    answers = [make_answer(), make_answer(method="other", notes={"steps": 3})]
    write_answers(tmp_path / "answers.json", answers)
    assert read_answers(tmp_path / "answers.json") == answers
    assert np.isnan(answers[0].array[0, 1])


def test_an_answer_of_another_schema_or_without_seconds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="schema 1 are read, got 2"):
        make_answer(schema=2)
    with pytest.raises(ValueError, match="at least one"):
        make_answer(wall_seconds=[], cpu_seconds=[])
    with pytest.raises(ValueError, match="longer than 0"):
        make_answer(wall_seconds=[0.0], cpu_seconds=[0.0])
    (tmp_path / "answers.json").write_text(json.dumps([{"library": "fake", "speed": 9}]))
    with pytest.raises(ValueError, match="not the answers of a peer"):
        read_answers(tmp_path / "answers.json")


def test_warming_up_is_on_a_small_part_and_not_counted() -> None:
    sizes = []

    def compute(problem: Problem) -> np.ndarray:
        sizes.append(len(problem.y))
        return problem.cells(problem.y)

    result = measure(Method("", lambda p: p, compute), make_problem(n=1000), repeats=2)
    assert sizes == [400, 1000, 1000]
    assert len(result["wall_seconds"]) == len(result["cpu_seconds"]) == 2


def test_memory_above_the_data_is_seen() -> None:
    def compute(problem: Problem) -> np.ndarray:
        values = np.ones(8_000_000) if len(problem.y) > 400 else np.ones(1)
        return problem.cells(problem.y * values[0])

    result = measure(Method("", lambda p: p, compute), make_problem(n=1000), repeats=1)
    # 64 MB are written; pages that were free before may hide a few.
    assert 50e6 < result["peak_bytes"] < 200e6


def test_a_peer_runs_in_its_own_process(programs: Path, file: Path) -> None:
    fake = timing.Contestant("fake", "with_fake", "sums")
    answers = timing.run(fake, file, repeats=2, programs=programs)
    assert not isinstance(answers, str)
    (answer,) = answers
    problem = make_problem()
    np.testing.assert_allclose(answer.array, problem.cells(problem.y - 0.5), rtol=1e-12)
    assert (answer.library, answer.version) == ("numpy", np.__version__)
    assert answer.notes == {"steps": 3}
    assert len(answer.wall_seconds) == 2


def test_a_peer_that_fails_says_why_in_one_line(programs: Path, file: Path) -> None:
    broken = timing.Contestant("broken", "with_fake", "broken")
    assert timing.run(broken, file, repeats=1, programs=programs) == "RuntimeError: no such solver"


def test_a_peer_that_is_not_installed_is_left_out(
    programs: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "run", lambda *a, **k: run(*a, **k, programs=programs))
    fake = timing.Contestant("fake", "with_fake", "sums")
    missing = timing.Contestant("missing", "with_fake", "sums", "torch")
    said: list[str] = []
    records = timing.take_turns(
        [missing, fake], file, turns=2, repeats=1, peers=programs, say=said.append
    )
    assert records["missing"].reason == "environment 'torch' is not there: run `make peers`"
    assert timing.as_json(records["missing"])["available"] is False
    assert len(records["fake"].answers) == 2
    assert sum("missing" in text for text in said) == 1
    assert json.dumps(timing.as_json(records["fake"]))


run = timing.run


def test_only_our_own_process_sees_our_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    assert timing.environment_of(1, is_own=True)["PYTHONPATH"] == "somewhere"
    others = timing.environment_of(2, is_own=False)
    assert "PYTHONPATH" not in others
    assert others["OMP_NUM_THREADS"] == others["OPENBLAS_NUM_THREADS"] == "2"
