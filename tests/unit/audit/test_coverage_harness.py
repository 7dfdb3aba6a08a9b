"""How often bounds exceed a known level, at reduced size; the benchmark does it in full."""

from __future__ import annotations

import pytest

from epsilens.audit import CoverageReport, measure_coverage
from epsilens.errors import InputError

CASES = [
    ("randomised-response", 0.0, "pure", "path"),
    ("randomised-response", 0.0, "pure", "bonferroni"),
    ("randomised-response", 0.0, "pure", "split"),
    ("randomised-response", 0.0, "pure", 40),
    ("leaky-response", 1e-4, "approximate", "path"),
    ("leaky-response", 1e-4, "approximate", 40),
    ("gaussian", 1e-4, "approximate", "path"),
    ("gaussian", 1e-4, "f-dp", None),
    ("gaussian", 1e-4, "f-dp", "split"),
    ("gaussian", 1e-4, "independent-gdp", 20),
]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
@pytest.mark.parametrize(("channels", "delta", "method", "selection"), CASES)
def test_bounds_hold_where_they_claim_to(channels, delta, method, selection, epsilon):
    report = measure_coverage(
        channels,
        epsilon=epsilon,
        delta=delta,
        method=method,
        selection=selection,
        n_audits=150,
        n_canaries=120,
        random_state=11,
    )
    # Three standard errors: thirty such tests, and 150 audits each.
    assert report.rate <= 0.05 + 3 * report.standard_error


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_as_printed_fails(epsilon):
    report = measure_coverage(
        "randomised-response", epsilon=epsilon, selection="as_printed", n_audits=200, random_state=2
    )
    # About three in ten; 200 audits have a standard error of 3.2 points.
    assert 0.15 < report.rate < 0.45
    assert not report.holds


@pytest.mark.slow
def test_a_gaussian_bound_is_false_for_randomised_response():
    report = measure_coverage(
        "randomised-response", epsilon=3.0, delta=1e-6, method="f-dp", selection=100, n_audits=20
    )
    assert report.rate > 0.9


def test_a_report_knows_what_is_allowed():
    report = CoverageReport(1.0, 0.0, n_audits=400, n_above=28, allowed_rate=0.05, mean_bound=0.8)
    assert report.rate == 0.07
    assert report.standard_error == pytest.approx(0.0109, abs=1e-4)
    assert report.holds
    worse = CoverageReport(1.0, 0.0, n_audits=400, n_above=29, allowed_rate=0.05, mean_bound=0.8)
    assert not worse.holds


def test_channels_need_their_delta():
    with pytest.raises(InputError, match="greater than 0 for 'gaussian'"):
        measure_coverage("gaussian", epsilon=1.0, n_audits=1)


def test_progress_is_told():
    told = []
    measure_coverage(
        "randomised-response",
        epsilon=1.0,
        selection=5,
        n_audits=2,
        n_canaries=20,
        progress=lambda *step: told.append(step),
    )
    assert [step[:2] for step in told] == [(1, 2), (2, 2)]
