from __future__ import annotations

from types import SimpleNamespace

import pytest

from epsilens.decision import Standing, masking_lever
from epsilens.errors import InputError


class Made:
    """A decision as the lever sees it."""

    def __init__(self, ceilings, losses, *, baseline, epsilon=1.0, guess=0.6):
        self.standings = tuple(
            Standing(at, loss, ceiling, None, is_trusted=True)
            for at, loss, ceiling in zip((0.5, 1.0, 2.0), losses, ceilings, strict=False)
        )
        cost = SimpleNamespace(baseline=SimpleNamespace(loss=baseline))
        cell = SimpleNamespace(answer_inference_baseline=guess)
        risk = SimpleNamespace(cells=[cell], n_targets=1000)
        self.document = SimpleNamespace(cost=cost, risk=risk)
        self.recommendation = SimpleNamespace(epsilon=epsilon)

    def at(self, epsilon):
        return next(s for s in self.standings if s.epsilon == epsilon)


ALL = Made([0.7, 0.8, 0.9], [0.3, 0.2, 0.1], baseline=0.5, guess=0.7)


def test_the_same_rate_at_a_larger_budget():
    lever = masking_lever(
        ALL, Made([0.6, 0.7, 0.8], [0.2, 0.1, 0.05], baseline=0.52), masked=["gait"]
    )
    assert (lever.epsilon, lever.epsilon_masked, lever.is_larger) == (1.0, 2.0, True)
    assert lever.attack_rate == 0.8
    # The model without the column is worse by 0.02 before any noise: that counts.
    assert lever.loss_increase_masked == pytest.approx(0.07)
    assert "up to 0.07 instead of 0.2, cheaper than with all columns." in lever.sentence
    assert "if attackers do not have these columns from elsewhere" in lever.sentence
    assert "as measured" in lever.sentence


def test_a_guess_that_falls_by_no_more_than_its_noise_is_no_lever():
    """Of 1,000 records 70 % and 67 % differ by 3 points, one and a half standard errors of both."""
    near = Made([0.6, 0.7, 0.8], [0.2, 0.1, 0.05], baseline=0.52, guess=0.67)
    lever = masking_lever(ALL, near, masked=["gait"])
    assert not lever.is_larger
    assert "by no more than its noise: nothing speaks for a larger ε than 1." in lever.sentence
    assert "cheaper" not in lever.sentence


def test_a_larger_budget_that_costs_more_is_called_so():
    lever = masking_lever(
        ALL, Made([0.6, 0.7, 0.8], [0.2, 0.1, 0.05], baseline=0.9), masked=["gait"]
    )
    assert "not cheaper: keep them" in lever.sentence


def test_no_lever_is_called_so():
    same = Made([0.7, 0.8, 0.9], [0.3, 0.2, 0.1], baseline=0.5)
    lever = masking_lever(ALL, same, masked=["gait"])
    assert not lever.is_larger
    assert lever.sentence.endswith("masking is no lever here.")
    none = Made([0.7, 0.8, 0.9], [0.3, 0.2, 0.1], baseline=0.5, epsilon=None)
    assert masking_lever(none, same, masked=["gait"]) is None
    with pytest.raises(InputError, match="one grid"):
        masking_lever(ALL, Made([0.7], [0.3], baseline=0.5), masked=["gait"])
