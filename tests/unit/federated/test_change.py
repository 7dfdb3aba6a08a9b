# SPDX-License-Identifier: Apache-2.0
"""Steps against their formulas, and against really training again."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from epsilens.errors import InputError
from epsilens.federated import (
    Coordinator,
    FederationSchema,
    LocalParties,
    Objective,
    Records,
    Site,
    add_up,
    removal_step,
)

from .conftest import SIZES, contract, make_sites, truth


def refit(schema: FederationSchema, parts: list[Records], strength: float) -> np.ndarray:
    """Train with scikit-learn on all records together: nothing of ours but the design."""
    X = np.vstack([schema.design(part).matrix for part in parts])
    y = np.concatenate([schema.labels(part) for part in parts])
    model = LogisticRegression(
        C=1 / (strength * len(X)), solver="newton-cholesky", tol=1e-12, max_iter=500
    )
    if schema.label.size > 2:
        model.set_params(solver="lbfgs", tol=1e-13, max_iter=20_000)
    model.fit(X[:, :-1], y)
    return np.column_stack([model.coef_, model.intercept_]).ravel()


def draws(parties: LocalParties) -> list[Records]:
    return [site.state.current.records for site in parties.sites.values()]


@pytest.mark.parametrize("n_labels", [2, 3])
def test_newton_rounds_train_to_the_optimum_in_few_rounds(n_labels: int) -> None:
    schema = contract(n_labels)
    parties = LocalParties(make_sites(schema))
    leader = Coordinator(schema, parties, regularisation=1e-2)
    version = leader.train()
    assert version.converged
    assert version.rounds < 10
    theirs = refit(schema, draws(parties), 1e-2)
    if n_labels > 2:
        # scikit-learn leaves the free intercepts where they end; only differences matter.
        for each in (theirs, version.theta):
            by_class = each.reshape(n_labels, -1)
            by_class[:, -1] -= by_class[:, -1].mean()
    np.testing.assert_allclose(version.theta, theirs, atol=2e-6 if n_labels > 2 else 1e-8)


@pytest.mark.parametrize("mode", ["degrade", "redraw"])
def test_exact_equals_retraining_on_the_same_draw(schema: FederationSchema, mode: str) -> None:
    parties = LocalParties(make_sites(schema, limit=100.0))
    leader = Coordinator(schema, parties, regularisation=1e-2)
    leader.train()
    version = leader.change({2: 1.0, 0: 0.5}, mode=mode, rung="exact")
    assert version.sites == (0, 2)
    np.testing.assert_allclose(version.theta, refit(schema, draws(parties), 1e-2), atol=1e-8)
    assert version.predicted_error < 1e-9


def test_one_message_is_the_printed_formula_with_the_global_hessian(
    coordinator: Coordinator, sites: list[Site], schema: FederationSchema
) -> None:
    theta = coordinator.theta
    total = add_up(site.sums(theta) for site in sites)
    before = sites[2].sums(theta).gradient
    version = coordinator.change({2: 1.0})
    after = sites[2].sums(theta).gradient
    ridge = np.diag([1e-2] * (schema.n_features - 1) + [0.0])
    hessian = total.hessian / total.n + ridge
    np.testing.assert_allclose(
        version.theta,
        theta - np.linalg.solve(hessian, (after - before) / total.n),
        rtol=1e-10,
        atol=1e-12,
    )


def test_several_sites_add_up(schema: FederationSchema) -> None:
    """P2 Eq. 20: in one message from each, the moves of the sites are summed."""

    def moved(epsilon: dict[int, float]) -> np.ndarray:
        leader = Coordinator(schema, LocalParties(make_sites(schema)), regularisation=1e-2)
        leader.train()
        return leader.preview(epsilon).theta - leader.theta

    np.testing.assert_allclose(
        moved({1: 1.0, 3: 0.5}), moved({1: 1.0}) + moved({3: 0.5}), rtol=1e-9, atol=1e-12
    )


def test_the_ladder_comes_closer_rung_by_rung(schema: FederationSchema) -> None:
    """Errors in the mean over seeds: a single draw may favour the coarser step."""
    errors = {"none": [], "one-message": [], "newton": []}
    for seed in range(8):
        found = {}
        for rung in ("one-message", "newton", "exact"):
            sites = [
                Site(i, schema, truth(schema, n, seed=10 + i), epsilon=4.0, seed=seed)
                for i, n in enumerate(SIZES)
            ]
            leader = Coordinator(schema, LocalParties(sites), regularisation=1e-2)
            start = leader.train().theta
            found[rung] = leader.change({0: 0.2}, rung=rung).theta
        for rung, theta in (("none", start), *found.items()):
            if rung != "exact":
                errors[rung].append(np.linalg.norm(theta - found["exact"]))
    none, one, newton = (np.mean(errors[rung]) for rung in ("none", "one-message", "newton"))
    assert newton < one < none / 2


def test_a_preview_is_the_mean_of_what_changes_give(schema: FederationSchema) -> None:
    """The exact preview against 60 real changes of the same draw: within 3.5 standard errors."""
    sites = make_sites(schema)
    leader = Coordinator(schema, LocalParties(sites), regularisation=1e-2)
    leader.train()
    preview = leader.preview({1: 0.5}, rung="exact").theta
    drawn = []
    for seed in range(60):
        again = []
        for site in sites:
            # The same present draw, another stream for the next one.
            state = site.state
            object.__setattr__(state, "seed", 1000 + seed)
            again.append(Site.restore(schema, truth(schema, site.n, seed=10 + site.number), state))
        other = Coordinator(schema, LocalParties(again), regularisation=1e-2)
        other.train()
        drawn.append(other.change({1: 0.5}, rung="exact").theta)
    mean, error = np.mean(drawn, axis=0), np.std(drawn, axis=0, ddof=1) / np.sqrt(60)
    # The mean of optima is not the optimum of the mean; the difference is of second order.
    assert np.all(np.abs(preview - mean) < 3.5 * error + 0.1 * np.std(drawn, axis=0))


@pytest.mark.parametrize("leaving", [[4], [0, 3]])
def test_removal_is_right_in_sign_and_size(
    schema: FederationSchema, coordinator: Coordinator, leaving: list[int]
) -> None:
    parties = coordinator.parties
    kept = [s.state.current.records for i, s in parties.sites.items() if i not in leaving]
    truth_without = refit(schema, kept, 1e-2)
    before = coordinator.theta
    version = coordinator.remove(leaving)
    nothing = np.linalg.norm(before - truth_without)
    ours = np.linalg.norm(version.theta - truth_without)
    # P2 Eqs. 4 and 27 as printed go the other way.
    printed = np.linalg.norm(before - (version.theta - before) - truth_without)
    assert ours < 0.25 * nothing
    assert printed > nothing
    assert parties.numbers == tuple(i for i in range(5) if i not in leaving)


def test_a_second_step_halves_what_the_first_has_left(schema: FederationSchema) -> None:
    """At least: Newton's error is squared. The first step asks nobody, the second everybody once."""
    left, asked = {}, {}
    for rung in ("one-message", "newton", "exact"):
        parties = LocalParties(make_sites(schema))
        leader = Coordinator(schema, parties, regularisation=1e-2)
        leader.train()
        version = leader.remove([0], rung=rung)
        exact = refit(schema, draws(parties), 1e-2)
        left[rung] = np.linalg.norm(version.theta - exact)
        asked[rung] = version.messages
        assert left[rung] <= max(version.predicted_error, 1e-8)
    assert left["exact"] < 1e-8 < left["newton"] < 0.5 * left["one-message"]
    n_stay = len(SIZES) - 1
    assert (asked["one-message"], asked["newton"]) == (n_stay, 3 * n_stay)


def test_removal_equals_both_formulas_of_the_step_on_what_is_kept(
    schema: FederationSchema, coordinator: Coordinator, sites: list[Site]
) -> None:
    """With λ fixed; N and the penalty are those of the kept records (math.md 6)."""
    theta, lam = coordinator.theta, 1e-2
    sums = {i: site.sums(theta) for i, site in enumerate(sites)}
    total = add_up(sums.values())
    gone, n = sums[4], total.n
    D = np.diag([1.0] * (schema.n_features - 1) + [0.0])
    H = total.hessian / n + lam * D
    kept_hessian = (n * (H - lam * D) - gone.hessian) / (n - gone.n) + lam * D
    step = np.linalg.solve(kept_hessian, gone.gradient + gone.n * lam * D @ theta)
    printed_in_math = theta + step / (n - gone.n)
    ours = removal_step(Objective(theta, total, coordinator.penalty), [gone]).theta
    np.testing.assert_allclose(ours, printed_in_math, rtol=1e-7, atol=1e-10)


def test_exact_removal_leaves_nothing_of_the_site(schema: FederationSchema) -> None:
    parties = LocalParties(make_sites(schema))
    leader = Coordinator(schema, parties, regularisation=1e-2)
    leader.train()
    version = leader.remove([1], rung="exact")
    np.testing.assert_allclose(version.theta, refit(schema, draws(parties), 1e-2), atol=1e-8)
    assert version.model_epsilon == 0.0
    with pytest.raises(InputError, match="site 1 does not take part"):
        leader.change({1: 1.0})


def test_messages_are_counted(schema: FederationSchema, coordinator: Coordinator) -> None:
    """One message from the changing site and the new model to all: N + 1 (federated.md)."""
    p = schema.n_parameters
    version = coordinator.change({2: 1.0})
    assert version.messages == len(SIZES) + 1
    assert version.bytes == 8 * p * (len(SIZES) + 1)
    # The next change must ask for the Hessians again, for the model has moved.
    again = coordinator.change({2: 0.5})
    assert again.messages == 3 * len(SIZES) + 1
    exact = coordinator.change({2: 0.4}, rung="exact")
    assert exact.messages > again.messages


def test_an_unconverged_model_is_not_built_upon(
    schema: FederationSchema, sites: list[Site]
) -> None:
    leader = Coordinator(schema, LocalParties(sites), regularisation=1e-2)
    version = leader.train(algorithm="fedavg", rounds=3, local_steps=2)
    assert version.advice == "converge"
    assert not version.converged
    change = leader.preview({2: 2.5})
    assert change.advice == "converge"
    assert "Newton rounds first" in change.reason


def test_federated_averaging_with_one_step_reaches_the_optimum(schema: FederationSchema) -> None:
    """One local step is gradient descent on the common objective; more steps end elsewhere."""
    found = {}
    for steps in (1, 20):
        leader = Coordinator(schema, LocalParties(make_sites(schema)), regularisation=1e-1)
        start = leader.train(
            algorithm="fedavg", local_steps=steps, rounds=3000, tolerance=1e-11
        ).theta
        found[steps] = np.linalg.norm(start - leader.train().theta)
    assert found[1] < 1e-8
    assert found[20] > 1e-4


def test_data_that_hardly_hold_the_model_are_flagged() -> None:
    """A nearly separable table without regularisation, like glioma's in P2."""
    schema = contract()
    rng = np.random.default_rng(0)
    sites = []
    for i in range(5):
        records = truth(schema, 12, seed=i)
        label = (records.numbers[:, 0] > 40).astype(np.int64)
        records = records.with_codes([schema.positions["smokes"]], label[:, None])
        sites.append(Site(i, schema, records, epsilon=8.0, seed=int(rng.integers(100))))
    loose = Coordinator(schema, LocalParties(sites), regularisation=1e-6)
    loose.train()
    assert loose.preview({0: 0.5}).advice == "regularise"
    held = Coordinator(schema, LocalParties(sites), regularisation=0.3)
    held.train()
    assert held.preview({0: 0.5}).advice != "regularise"


def test_the_predicted_error_is_of_the_right_size(schema: FederationSchema) -> None:
    """Cautious: never more than twice too small, never more than ten times too large."""
    ratios = []
    for site in range(5):
        for epsilon in (2.0, 1.0, 0.2):
            leader = Coordinator(schema, LocalParties(make_sites(schema)), regularisation=1e-2)
            leader.train()
            one = leader.preview({site: epsilon})
            exact = leader.preview({site: epsilon}, rung="exact")
            ratios.append(np.linalg.norm(one.theta - exact.theta) / one.predicted_error)
    assert all(0.1 < ratio < 2.0 for ratio in ratios), np.round(ratios, 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c: c.change({9: 1.0}), "site 9 does not take part"),
        (lambda c: c.change({}), "at least one site"),
        (lambda c: c.change({1: 5.0}), "only become stricter"),
        (lambda c: c.change({1: 0.0}), "greater than 0"),
        (lambda c: c.change({1: float("nan")}), "greater than 0"),
        (lambda c: c.change({1: {"smokes": 1.0}}), "must name each protected column"),
        (lambda c: c.change({1: 1.0}, mode="as_printed"), "does not allow it"),
        (lambda c: c.change({1: 1.0}, rung="two"), "`rung`"),
        (lambda c: c.change({1: 1.0}, mode="noise"), "`mode`"),
        (lambda c: c.remove(range(5)), "at least one site must stay"),
        (lambda c: c.remove([7]), "site 7 does not take part"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(
    coordinator: Coordinator, call, words: str
) -> None:
    before = (coordinator.theta.copy(), len(coordinator.versions), coordinator.parties.ledger())
    with pytest.raises(InputError, match=words):
        call(coordinator)
    assert np.array_equal(coordinator.theta, before[0])
    assert len(coordinator.versions) == before[1]
    assert coordinator.parties.ledger() == before[2]


def test_an_untrained_federation_says_so(schema: FederationSchema, sites: list[Site]) -> None:
    with pytest.raises(InputError, match="no model yet"):
        Coordinator(schema, LocalParties(sites)).change({0: 1.0})
    with pytest.raises(InputError, match="regularisation"):
        Coordinator(schema, LocalParties(sites), regularisation=-1.0)
