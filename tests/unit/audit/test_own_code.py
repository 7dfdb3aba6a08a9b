"""Code of the user's own: whatever it does, one line says what was expected, and no record."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from epsilens.audit import (
    GaussianSum,
    Gradient,
    LinearMMSE,
    Loss,
    OneRunAudit,
    answer_pairs,
    own_canaries,
)
from epsilens.audit.own_code import load_callable, run_own
from epsilens.audit.scores import AnswerMatch, Centred, InnerProduct
from epsilens.errors import InputError, InputTypeError

CANARIES = own_canaries(np.eye(40))


def raising(error):
    def mechanism(rows):
        raise error

    return mechanism


@pytest.mark.parametrize(
    "error", [ValueError("patient 17"), KeyError("patient 17"), SystemExit("patient 17")]
)
def test_a_mechanism_that_fails_is_named_and_not_quoted(error):
    with pytest.raises(InputError, match=f"'mechanism' must.*{type(error).__name__}") as caught:
        OneRunAudit(raising(error), canaries=CANARIES).run(random_state=0)
    assert "17" not in str(caught.value)
    assert caught.value.__cause__ is error


class _Ended(SystemExit):
    """How a program that runs an audit may end itself."""


@pytest.mark.parametrize("error", [KeyboardInterrupt(), _Ended(143), InputError("said by us.")])
def test_what_is_not_the_mechanisms_goes_through(error):
    with pytest.raises(type(error)) as caught:
        OneRunAudit(raising(error), canaries=CANARIES).run(random_state=0)
    assert caught.value is error


@pytest.mark.parametrize("method", ["canaries", "true_epsilon"])
def test_a_mechanism_of_ones_own_kind_that_fails_is_said(method, monkeypatch):
    def fails(*arguments):
        raise RuntimeError("patient 17")

    class Own(GaussianSum):
        """A user's mechanism."""

    monkeypatch.setattr(Own, method, fails)
    with pytest.raises(InputError, match="stopped with RuntimeError") as caught:
        OneRunAudit(Own(1.0, 1e-6, dimension=20), canaries=10).run(random_state=0)
    assert "17" not in str(caught.value)


def test_a_score_that_fails_is_said():
    def score(output, canaries):
        raise RuntimeError("patient 17")

    with pytest.raises(InputError, match=r"`score` must give.*RuntimeError") as caught:
        OneRunAudit(np.sum, canaries=CANARIES, score=score).run(random_state=0)
    assert "17" not in str(caught.value)


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (np.full(40, np.nan), "40 of 40 are NaN or infinite"),
        (np.array([np.inf] + [0.0] * 39), "1 of 40 are NaN or infinite"),
        (["1.5"] * 40, "real numbers, got list"),
        ("text", "real numbers, got str"),
        (None, "real numbers, got NoneType"),
        (np.zeros(40) * 1j, "values of type complex128"),
        ([[1.0], [2.0, 3.0]], "real numbers, got list"),
        (np.zeros(3), r"got shape \(3,\)"),
        (np.float64(1.0), r"got shape \(\)"),
        (np.full(40, 1e300), "larger ones"),
    ],
)
@pytest.mark.parametrize("score", [LinearMMSE(), Centred(), InnerProduct()])
def test_outputs_that_are_no_vector_of_numbers(output, words, score):
    with pytest.raises(InputError, match=words):
        OneRunAudit(lambda rows: output, canaries=CANARIES, score=score).run(random_state=0)


def test_answers_and_coefficients_are_checked_too():
    pairs = answer_pairs(30, k=3, random_state=0)
    for output in (np.full(30, np.nan), ["a"] * 30, None):
        with pytest.raises(InputError, match="the score for answers needs"):
            AnswerMatch()(output, pairs)
    labelled = own_canaries((np.eye(3), np.ones(3)))
    with pytest.raises(InputError, match=r"the score 'gradient' needs.*finite"):
        Gradient()([0.0, np.nan, 1.0], labelled)


@pytest.mark.parametrize(
    ("scores", "error", "words"),
    [
        (np.full(40, np.nan), InputError, "with NaN"),
        (np.zeros(40) * 1j, InputTypeError, "one number per canary"),
        (["1"] * 40, InputTypeError, "one number per canary"),
        (None, InputTypeError, "one number per canary"),
        ([[1], [2, 3]], InputTypeError, "one number per canary"),
    ],
)
def test_scores_that_are_no_numbers(scores, error, words):
    audit = OneRunAudit(np.sum, canaries=CANARIES, score=lambda output, canaries: scores)
    with pytest.raises(error, match=words):
        audit.run(random_state=0)


def test_a_label_that_the_model_never_met_has_no_probability():
    model = DummyClassifier().fit([[0.0]] * 4, [0, 0, 1, 1])
    canaries = own_canaries((np.zeros((3, 1)), np.array([0, 1, 2])))
    values = Loss()(model, canaries)
    assert values[0] == values[1] == pytest.approx(np.log(0.5))
    assert values[2] < -700.0


def test_canaries_that_repeat_each_other_do_not_stop_the_linear_estimate():
    same = own_canaries(np.ones((6, 9), dtype=np.float32))
    scores = LinearMMSE(1e-9)(np.full(9, 3.5), same)
    # 32-bit rounding, 1e-7, times a condition number of 3e5.
    np.testing.assert_allclose(scores, scores[0], rtol=0.1)


def test_a_reference_run_needs_arrays_of_one_shape():
    audit = OneRunAudit(lambda rows: None, canaries=CANARIES, reference_run=True)
    with pytest.raises(InputError, match="a reference run needs an output of real numbers"):
        audit.run(random_state=0)
    audit = OneRunAudit(lambda rows: rows[:, 0], canaries=CANARIES, reference_run=True)
    with pytest.raises(InputError, match="outputs of one shape"):
        audit.run(random_state=0)
    answers = OneRunAudit(
        lambda codes: codes,
        canaries=answer_pairs(20, k=2, random_state=0),
        score=AnswerMatch(),
        reference_run=True,
    )
    with pytest.raises(InputError, match="`reference_run` must be False"):
        answers.run(random_state=0)


@pytest.fixture
def modules(tmp_path, monkeypatch):
    for name, text in {
        "fx_syntax": "def f(:\n",
        "fx_exits": "import sys\nsys.exit(4)\n",
        "fx_raises": "raise RuntimeError('patient 17')\n",
        "fx_imports": "import no_such_module_at_all\n",
        "fx_needs": "class Needs:\n    def __init__(self, a):\n        self.a = a\n",
        "fx_asks": "def __getattr__(name):\n    raise RuntimeError('patient 17')\n",
        "fx_interrupts": "raise KeyboardInterrupt\n",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in [name for name in sys.modules if name.startswith("fx_")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fx_syntax:f", "'fx_syntax', but it stopped with SyntaxError"),
        ("fx_exits:f", "stopped with SystemExit"),
        ("fx_raises:f", "stopped with RuntimeError"),
        ("fx_imports:f", "got 'fx_imports': there is no module 'no_such_module_at_all'"),
        ("fx_needs:Needs", "a class without arguments such as 'Needs', but .* TypeError"),
        ("fx_asks:f", "stopped with RuntimeError"),
        (".fx_needs:f", "MODULE:CALLABLE"),
    ],
)
def test_modules_that_cannot_be_loaded(modules, text, words):
    with pytest.raises(InputError, match=words) as caught:
        load_callable(text)
    assert "17" not in str(caught.value)


def test_ctrl_c_while_loading_goes_through(modules):
    with pytest.raises(KeyboardInterrupt):
        load_callable("fx_interrupts:f")


def test_run_own_gives_what_the_code_gives():
    assert run_own("it must add", sum, [1, 2], start=3) == 6
