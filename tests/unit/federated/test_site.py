# SPDX-License-Identifier: Apache-2.0
"""What leaves a site, what it draws and what it has spent."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from epsilens.audit import one_run_bound
from epsilens.channels import Budget, RandomizedResponse
from epsilens.errors import BudgetExceededError, InputError
from epsilens.federated import (
    Coordinator,
    DeclaredColumn,
    FederationSchema,
    LocalParties,
    Records,
    Site,
    Wish,
    as_budget,
    randomise,
    spend,
)
from epsilens.federated import site as site_module

from .conftest import contract, make_sites, truth


def everything_said(site: Site, theta: np.ndarray, wish: Wish) -> bytes:
    """All that a site sends in a preview and a change, as bytes."""
    said = []
    for preview in (True, False):
        site.prepare(wish, preview=preview)
        for sums in (
            site.sums(theta),
            site.sums(theta, pending=True),
            site.difference(theta, hessian=False),
            site.difference(theta),
        ):
            said += [np.float64(sums.loss).tobytes(), sums.gradient.tobytes()]
            said += [] if sums.hessian is None else [sums.hessian.tobytes()]
        if preview:
            site.end_preview()
    site.settle(1)
    return b"".join([*said, site.sums(theta).gradient.tobytes()])


def test_in_degrade_every_message_is_a_function_of_the_draw_alone(schema: FederationSchema) -> None:
    """Other true records, the same randomised ones: identical bytes (math.md 6)."""
    site = make_sites(schema)[0]
    other_truth = truth(schema, site.n, seed=500)
    other = Site.restore(schema, other_truth, site.state)
    theta = np.full(schema.n_parameters, 0.1)
    wish = Wish(as_budget(schema, 1.0))
    assert everything_said(site, theta, wish) == everything_said(other, theta, wish)


def test_the_printed_message_is_a_function_of_the_true_answers(schema: FederationSchema) -> None:
    site = make_sites(schema, allow_as_printed=True)[0]
    other = Site.restore(schema, truth(schema, site.n, seed=500), site.state)
    theta, wish = np.full(schema.n_parameters, 0.1), Wish(as_budget(schema, 1.0), "as_printed")
    said = everything_said(site, theta, wish)
    assert said != everything_said(other, theta, wish)
    assert site.total_epsilon == math.inf
    assert [entry.private for entry in site.ledger] == [True, False, False]


def levels_by_enumeration(schema, present: float, wanted: float, rung: str, *, preview: bool):
    """Return the largest log ratio of any model's probability between neighbouring truths.

    Two records at the changing site, one at the other; all true labels, all draws, all degraded draws.
    """
    numbers = np.array([[35.0], [55.0]])
    features = np.array([[0, 1, 2], [1, 3, 0]])
    bystander = truth(schema, 6, seed=3)
    first, step = RandomizedResponse(2, present), None
    step = first.degrade_to(wanted)
    outcomes = [(a, b) for a in range(2) for b in range(2)]
    budget, new = Budget({"smokes": present}), Budget({"smokes": wanted})

    def records(labels):
        return Records(np.column_stack([features, labels]), numbers)

    def model(drawn, degraded) -> bytes:
        site = Site(0, schema, records(drawn), epsilon=math.inf, seed=0)
        state = site.state
        object.__setattr__(state, "current", type(state.current)(records(drawn), budget))
        object.__setattr__(state, "anchor", state.current)
        site = Site.restore(schema, records(drawn), state)
        still = Site(1, schema, bystander, epsilon=math.inf, seed=0)
        leader = Coordinator(schema, LocalParties([site, still]), regularisation=0.1)
        leader.train()
        if preview:
            return leader.preview({0: wanted}, rung=rung).theta.tobytes()
        site.prepare(Wish(new))
        pending = site.state.pending
        object.__setattr__(pending, "drawn", type(pending.drawn)(records(degraded), new))
        return leader.change({0: wanted}, rung=rung).theta.tobytes()

    models = {(u, v): model(u, v) for u in outcomes for v in outcomes}
    chances = {}
    for true in outcomes:
        chances[true] = {}
        for u in outcomes:
            for v in outcomes:
                p = math.prod(first.matrix[t, x] for t, x in zip(true, u, strict=True))
                q = math.prod(step.matrix[x, z] for x, z in zip(u, v, strict=True))
                key = models[u, v]
                chances[true][key] = chances[true].get(key, 0.0) + p * q
    worst = 0.0
    for true in outcomes:
        for i in range(2):
            other = tuple(1 - t if j == i else t for j, t in enumerate(true))
            for key, p in chances[true].items():
                worst = max(worst, math.log(p / chances[other][key]))
    return worst


@pytest.mark.parametrize(
    ("rung", "preview", "level"),
    [
        ("exact", False, 1.0),
        ("one-message", False, 3.0),
        ("newton", False, 3.0),
        ("exact", True, 3.0),
        ("one-message", True, 3.0),
    ],
)
def test_what_a_model_by_itself_guarantees_by_enumeration(
    rung: str, preview: bool, level: float
) -> None:
    base = contract()
    schema = FederationSchema(base.columns, base.label, ("smokes",))
    worst = levels_by_enumeration(schema, 3.0, 1.0, rung, preview=preview)
    assert worst == pytest.approx(level, abs=1e-6)
    # And this is what the coordinator says.
    sites = [Site(i, schema, truth(schema, 50, seed=i), epsilon=3.0, seed=0) for i in range(2)]
    leader = Coordinator(schema, LocalParties(sites), regularisation=0.1)
    leader.train()
    call = leader.preview if preview else leader.change
    version = call({0: 1.0}, rung=rung)
    assert version.model_epsilon == pytest.approx(level)


def test_exact_rounds_bring_everybody_to_their_present_draw(schema: FederationSchema) -> None:
    leader = Coordinator(schema, LocalParties(make_sites(schema)), regularisation=1e-2)
    leader.train()
    leader.change({0: 2.0})
    assert leader.versions[-1].model_epsilon == 3.0
    version = leader.change({1: 1.0}, rung="exact")
    levels = {i: b.per_column["smokes"] for i, b in version.model_budgets.items()}
    assert levels == {0: 2.0, 1: 1.0, 2: 3.0, 3: 3.0, 4: 3.0}


@pytest.mark.parametrize(
    ("mode", "wanted", "total"),
    [("degrade", 1.0, 3.0), ("redraw", 1.0, 4.0), ("redraw", 5.0, 5.0), ("redraw", 3.0, 3.0)],
)
def test_totals_under_composition(mode: str, wanted: float, total: float) -> None:
    three = Budget({"a": 3.0})
    assert spend({"a": 3.0}, mode=mode, anchor=three, wanted=Budget({"a": wanted})) == {"a": total}


def test_the_ledger_shows_every_release_and_the_sum_over_columns(schema: FederationSchema) -> None:
    parties = LocalParties(make_sites(schema, limit=100.0))
    leader = Coordinator(schema, parties, regularisation=1e-2)
    leader.train()
    leader.preview({2: 1.0})
    leader.change({2: 1.0})
    leader.change({2: {"smokes": 0.5, "region": 2.0}}, mode="redraw")
    lines = [entry for entry in parties.ledger() if entry.site == 2]
    assert [(e.operation, e.mode, e.epsilon) for e in lines] == [
        ("train", None, 3.0),
        ("preview", "degrade", 1.0),
        ("change", "degrade", 1.0),
        ("change", "redraw", None),
    ]
    # Two columns at 3; the last draw is afresh for both, below the 3 of the last raw draw.
    assert [e.total_epsilon for e in lines] == [6.0, 6.0, 6.0, 8.5]
    assert all(e.private for e in lines)


def test_a_site_refuses_what_breaks_its_budget_whoever_asks(schema: FederationSchema) -> None:
    site = make_sites(schema)[0]
    with pytest.raises(BudgetExceededError, match="its limit is 6"):
        site.prepare(Wish(as_budget(schema, 1.0), "redraw"))
    assert site.total_epsilon == 6.0
    assert len(site.ledger) == 1
    with pytest.raises(InputError, match="`limit`"):
        Site(0, schema, truth(schema, 5, seed=0), epsilon=1.0, limit=-1.0)


def test_no_coordinator_can_allow_the_printed_message(schema: FederationSchema) -> None:
    """It would give sums over the true answers, at any model, whatever the limit."""
    wish = Wish(as_budget(schema, math.inf), "as_printed")
    for site in (make_sites(schema)[0], make_sites(schema, allow_as_printed=True, limit=6.0)[0]):
        for preview in (True, False):
            with pytest.raises(InputError, match=r"does not allow it|its limit is 6"):
                site.prepare(wish, preview=preview)
        assert len(site.ledger) == 1
        assert site.state.pending is None


def test_leave_to_send_the_printed_message_is_for_one_wish(schema: FederationSchema) -> None:
    site, theta = make_sites(schema)[0], np.zeros(schema.n_parameters)
    with pytest.raises(InputError, match="belongs to the mode `as_printed`"):
        site.ask_for(1.0, not_private=True)
    wish = site.ask_for(1.0, mode="as_printed", not_private=True)
    site.prepare(wish)
    site.ask_for(2.0)  # another wish: what waits is withdrawn, and stays counted
    with pytest.raises(InputError, match="has withdrawn its wish"):
        site.difference(theta)
    site.ask_for(1.0, mode="as_printed", not_private=True)
    site.prepare(wish)
    assert site.difference(theta).n == site.n
    site.settle(1)
    assert (site.state.limit, site.state.allows_as_printed) == (6.0, False)
    with pytest.raises(InputError, match="does not allow it"):
        site.prepare(wish)
    with pytest.raises(InputError, match="its limit is 6"):
        site.ask_for(1.0, mode="redraw")
    assert [entry.private for entry in site.ledger] == [True, False]


def test_what_spends_nothing_is_never_refused_for_its_cost(schema: FederationSchema) -> None:
    site = make_sites(schema, allow_as_printed=True)[0]
    site.prepare(Wish(as_budget(schema, 1.0), "as_printed"))
    site.settle(1)
    site.prepare(Wish(as_budget(schema, 2.0)), preview=True)
    site.prepare(Wish(as_budget(schema, 2.0)))
    assert [entry.private for entry in site.ledger] == [True, False, False, False]


def test_a_coordinator_cannot_make_the_ledger_grow_without_end(
    schema: FederationSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_module, "MOST_PREVIEWS", 2)
    site = make_sites(schema)[0]
    first, second, third = (Wish(as_budget(schema, epsilon)) for epsilon in (2.0, 1.5, 1.0))
    for wish in (first, first, second):  # asked again at once, it is the same one
        site.prepare(wish, preview=True)
    with pytest.raises(InputError, match="has answered 2 previews"):
        site.prepare(third, preview=True)
    assert [line.operation for line in site.ledger] == ["train", "preview", "preview"]
    # What its own people wish they may look at all the same.
    site.ask_for(1.0)
    site.prepare(third, preview=True)
    assert site.ledger[-1].operation == "preview"


def test_a_preview_keeps_a_draw_that_waits(schema: FederationSchema) -> None:
    site = make_sites(schema, limit=100.0)[0]
    theta = np.zeros(schema.n_parameters)
    site.prepare(Wish(as_budget(schema, 5.0), "redraw"))
    drawn = site.difference(theta).gradient
    site.prepare(Wish(as_budget(schema, 0.5)), preview=True)
    assert not np.array_equal(site.difference(theta).gradient, drawn)
    site.end_preview()
    site.prepare(Wish(as_budget(schema, 5.0), "redraw"))
    assert np.array_equal(site.difference(theta).gradient, drawn)
    assert len(site.ledger) == 3


def test_a_looser_draw_is_made_together_with_the_last_even_if_that_was_given_up() -> None:
    """Given up at 2, drawn at 3: each pair follows its law, and the total is 3 (math.md 1).

    60,000 records of one truth; four cells a pair, each within 4.5 standard errors.
    """
    base = contract()
    schema = FederationSchema(base.columns, base.label, ("smokes",))
    n = 60_000
    records = Records(np.zeros((n, 4), dtype=np.int64), np.zeros((n, 1)))
    site = Site(0, schema, records, epsilon=1.0, limit=3.0, seed=3)
    place, draws = schema.positions["smokes"], [site.state.anchor]
    for epsilon in (2.0, 3.0):
        site.prepare(Wish(as_budget(schema, epsilon), "redraw"))
        draws.append(site.state.anchor)
    assert site.total_epsilon == 3.0
    for old, new in itertools.pairwise(draws):
        fine = RandomizedResponse(2, new.budget.per_record)
        noise = fine.degrade_to(old.budget.per_record).matrix
        for a in range(2):
            for b in range(2):
                expected = fine.matrix[0, b] * noise[b, a]
                seen = np.mean(
                    (old.records.codes[:, place] == a) & (new.records.codes[:, place] == b)
                )
                assert abs(seen - expected) < 4.5 * math.sqrt(expected * (1 - expected) / n)


def test_an_older_version_is_refused_aloud(schema: FederationSchema) -> None:
    site = make_sites(schema)[0]
    site.settle(4, changed=False)
    with pytest.raises(InputError, match="has version 4"):
        site.settle(3, changed=False)


def test_every_draw_has_a_stream_of_its_own(schema: FederationSchema) -> None:
    site = make_sites(schema, limit=100.0)[0]
    site.prepare(Wish(as_budget(schema, 1.0), "redraw"))
    first = site.state.anchor.records.codes
    site.prepare(Wish(as_budget(schema, 0.9), "redraw"))
    agree = np.mean(first[:, -1] == site.state.anchor.records.codes[:, -1])
    # Two independent draws at ε of about 1 agree in about 61 of 100 answers, 120 records.
    assert agree < 0.85


def test_one_draw_is_kept_however_often_it_is_asked_for(schema: FederationSchema) -> None:
    site = make_sites(schema)[0]
    wish, theta = Wish(as_budget(schema, 1.0)), np.zeros(schema.n_parameters)
    site.prepare(wish)
    first = site.difference(theta).gradient
    site.prepare(wish)
    assert np.array_equal(site.difference(theta).gradient, first)
    assert len(site.ledger) == 2
    site.settle(1)
    site.settle(1)
    with pytest.raises(InputError, match="no change that waits"):
        site.settle(2)


def test_only_protected_columns_are_drawn(schema: FederationSchema) -> None:
    site = make_sites(schema, epsilon=0.5)[0]
    true, drawn = truth(schema, site.n, seed=10), site.state.current.records
    changed = (true.codes != drawn.codes).any(axis=0)
    assert changed.tolist() == [False, True, False, True]
    assert np.array_equal(true.numbers, drawn.numbers)


def test_looser_draws_agree_with_the_old_where_they_can(schema: FederationSchema) -> None:
    """The coupled draw at a larger ε: at ε = ∞ it is the truth, and the total is the larger ε."""
    site = make_sites(schema, limit=math.inf)[0]
    site.prepare(Wish(Budget({"smokes": math.inf, "region": 3.0}), "redraw"))
    site.settle(1)
    drawn, place = site.state.current.records, schema.positions["smokes"]
    assert np.array_equal(drawn.codes[:, place], truth(schema, site.n, seed=10).codes[:, place])
    assert site.total_epsilon == math.inf


def test_a_real_draw_cannot_be_repeated(schema: FederationSchema) -> None:
    records = truth(schema, 400, seed=1)
    first, second = (Site(0, schema, records, epsilon=1.0) for _ in range(2))
    assert not np.array_equal(first.state.current.records.codes, second.state.current.records.codes)


@pytest.mark.parametrize("keep_as_published", [False, True])
def test_the_randomised_columns_pass_the_audit_and_the_published_ones_do_not(
    keep_as_published: bool,
) -> None:
    """Canaries in a column of eight answers at ε = 2, one run, 95 % confidence.

    P2's data keep an answer with e^ε/(1 + e^ε) whatever the number of answers, which is ε + log 7.
    """
    schema = FederationSchema(
        (DeclaredColumn("group", tuple("abcdefgh")),), DeclaredColumn("y", ("n", "y")), ("group",)
    )
    m = 4000
    rng = np.random.default_rng(0)
    included = rng.random(m) < 0.5
    codes = np.column_stack([included.astype(np.int64), np.zeros(m, dtype=np.int64)])
    records = Records(codes, np.empty((m, 0)))
    epsilon = 2.0
    if keep_as_published:
        lies = rng.random(m) > math.exp(epsilon) / (1 + math.exp(epsilon))
        reports = np.where(lies, (codes[:, 0] + rng.integers(1, 8, m)) % 8, codes[:, 0])
    else:
        budget = Budget({"group": epsilon})
        with pytest.warns(UserWarning, match="simulated"):
            reports = randomise(records, schema, budget, random_state=rng).codes[:, 0]
    scores = (reports == 1).astype(float) - (reports == 0)
    bound = one_run_bound(included, scores, method="pure").epsilon_lower_bound
    assert (bound > epsilon) == keep_as_published
    assert bound > 1.5


def test_no_record_is_printed(schema: FederationSchema) -> None:
    site = make_sites(schema)[0]
    assert "Records object" in repr(site.state.current.records)
    assert "[" not in repr(site.state)
