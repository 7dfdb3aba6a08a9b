"""The attacker who holds the randomised answers, against the sum over all reports written out."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, log_expit
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from epsilens.channels import RandomizedResponse
from epsilens.document import anonymise
from epsilens.document.view import view
from epsilens.errors import InputError
from epsilens.mechanisms import answer_ceiling, guess_ceiling
from epsilens.risk import AttackStudy
from epsilens.risk import holder as holder_module
from epsilens.risk.answer_inference import Beliefs, KnownColumns, cross_fitted
from epsilens.risk.holder import Holder, _chances


def by_definition(prior: np.ndarray, truth: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Σ_r P[y, r]·1{q(y)P[y, r] > q(z)P[z, r] for all other z}, (m,), for any channel."""
    chances = np.zeros(len(truth))
    for i, y in enumerate(truth):
        joint = prior[i, :, None] * matrix
        rivals = np.delete(joint, y, axis=0).max(axis=0)
        chances[i] = matrix[y][joint[y] > rivals].sum()
    return chances


def joint_matrix(channels: list[RandomizedResponse]) -> np.ndarray:
    matrix = np.ones((1, 1))
    for channel in channels:
        matrix = np.kron(matrix, channel.matrix)
    return matrix


@pytest.mark.parametrize("sizes", [(2,), (3,), (10,), (2, 2), (3, 4), (2, 3, 2)])
@pytest.mark.parametrize("epsilon", [0.05, 0.7, 2.0, 6.0])
def test_column_by_column_is_the_sum_over_all_reports(sizes, epsilon):
    rng = np.random.default_rng(len(sizes))
    channels = [RandomizedResponse(k, epsilon * (1 + j)) for j, k in enumerate(sizes)]
    n_answers = math.prod(sizes)
    prior = rng.dirichlet(np.full(n_answers, 0.5), size=60)
    truth = rng.integers(0, n_answers, 60)
    found = _chances(np.log(prior), truth, channels)
    np.testing.assert_allclose(
        found, by_definition(prior, truth, joint_matrix(channels)), atol=1e-12
    )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_two_answers_are_right_with_the_larger_of_knowledge_and_channel(epsilon):
    """For a person with known q, the mean over the two answers is max(q, 1 − q, p)."""
    keep = RandomizedResponse(2, epsilon).keep_probability
    for q in (0.5, 0.6, 0.731, 0.9, 0.999):
        prior = np.log([[1 - q, q], [1 - q, q]])
        wrong, right = _chances(prior, np.array([0, 1]), [RandomizedResponse(2, epsilon)])
        assert q * right + (1 - q) * wrong == pytest.approx(max(q, keep))


def test_the_ends_are_the_best_guess_before_and_the_truth():
    rng = np.random.default_rng(1)
    prior, truth = rng.dirichlet(np.ones(12), size=200), rng.integers(0, 12, 200)
    guesses = prior.argmax(axis=1) == truth
    for sizes in ((12,), (3, 4)):
        nearly_nothing = [RandomizedResponse(k, 1e-9) for k in sizes]
        everything = [RandomizedResponse(k, math.inf) for k in sizes]
        np.testing.assert_allclose(_chances(np.log(prior), truth, nearly_nothing), guesses)
        np.testing.assert_array_equal(_chances(np.log(prior), truth, everything), 1.0)


def test_a_tie_counts_as_wrong():
    """Two answers as probable as each other beside a third: only the own report tells them apart."""
    channel = RandomizedResponse(3, 1.0)
    prior = np.log([[0.4, 0.4, 0.2]])
    found = _chances(prior, np.array([0]), [channel])
    # Report 2 leaves the two tied: 0.4 · flip each, and 0.2 · keep is 0.2 · 2.7 · flip, which is more.
    assert found[0] == pytest.approx(channel.keep_probability)
    weak = RandomizedResponse(3, 0.5)  # 0.2 · e^0.5 < 0.4: the two are tied at report 2
    assert _chances(prior, np.array([0]), [weak])[0] == pytest.approx(weak.keep_probability)


@pytest.mark.parametrize("sizes", [(2,), (10,), (3, 4)])
def test_whoever_is_right_about_the_odds_stays_below_the_ceiling(sizes):
    """The expectation over answers drawn from q itself, person by person and on average."""
    rng = np.random.default_rng(2)
    n_answers = math.prod(sizes)
    prior = rng.dirichlet(np.full(n_answers, 0.3), size=100)
    for epsilon in (0.2, 1.0, 3.0):
        channels = [RandomizedResponse(k, epsilon) for k in sizes]
        advantage = 1 - math.prod(1 - channel.advantage for channel in channels)
        rates = np.zeros(100)
        for y in range(n_answers):
            rates += prior[:, y] * _chances(np.log(prior), np.full(100, y), channels)
        before = prior.max(axis=1)
        ceilings = [
            answer_ceiling(b, epsilon=epsilon * len(sizes), advantage=advantage) for b in before
        ]
        assert (rates <= np.array(ceilings) + 1e-12).all()
        assert (rates >= before - 1e-12).all()
        assert rates.mean() <= guess_ceiling(before.mean(), advantage) + 1e-12


def test_a_sample_of_people_and_its_range(monkeypatch):
    """Nine in ten releases lie in the range: 4,000 drawn releases, standard error 0.005."""
    rng = np.random.default_rng(3)
    n, channel = 400, RandomizedResponse(3, 1.0)
    prior = rng.dirichlet(np.ones(3), size=n)
    truth = np.array([rng.choice(3, p=row) for row in prior])
    beliefs = Beliefs(np.arange(n), np.arange(3), np.log(prior), "known")
    shares = np.log(np.bincount(truth, minlength=3) / n)
    whole = Holder.of(truth, shares, beliefs)
    chances = whole.successes([channel])
    drawn = np.stack(
        [
            channel.draw(truth, lambda size: rng.integers(0, 2**64, size, np.uint64))
            for _ in range(4000)
        ]
    )
    posterior = prior[None] * channel.matrix.T[drawn]
    rates = (posterior.argmax(axis=2) == truth).mean(axis=1)
    assert rates.mean() == pytest.approx(chances.mean(), abs=5 * rates.std() / math.sqrt(4000))
    told = whole.rate(chances)
    assert told["holder_rate"] == pytest.approx(chances.mean())
    covered = np.mean((told["holder_rate_low"] <= rates) & (rates <= told["holder_rate_high"]))
    assert covered == pytest.approx(0.9, abs=0.03)
    monkeypatch.setattr(holder_module, "_MOST_NUMBERS", 300)
    monkeypatch.setattr(holder_module, "_FEWEST_PEOPLE", 10)
    some = Holder.of(truth, shares, beliefs)
    assert len(some.people) == 100
    np.testing.assert_array_equal(some.successes([channel]), chances[some.people])
    widths = [
        told["holder_rate_high"] - told["holder_rate_low"]
        for told in (some.rate(chances[some.people]), whole.rate(chances))
    ]
    assert widths[0] > widths[1]
    first = truth == 0
    assert whole.rate(chances, first)["holder_rate"] == pytest.approx(chances[first].mean())
    nobody = ~np.isin(np.arange(n), some.people)
    assert some.rate(chances[some.people], nobody)["holder_rate"] is None


def known_table(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A table of which the true probability of yes is known."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 8))).add_prefix("x")
    q = expit(0.5 * X["x0"].to_numpy())
    return X, q, (rng.random(n) < q).astype(np.intp)


def test_the_rate_is_that_of_known_odds_and_not_the_mean_of_the_larger():
    """Eight columns, one of which matters: the mean of max(q̂, p) flatters, the rate over people does not.

    A predictor that learnt from few people is too sure of itself. Its calibrated probabilities are at
    most as good as the known ones.
    """
    X, q, truth = known_table(4_000, seed=0)
    known = KnownColumns.of(X, hidden=set(), label=None)
    found = cross_fitted(known, truth, np.random.default_rng(0))
    shares = np.log(np.bincount(truth) / len(truth))
    channel = RandomizedResponse(2, 0.4)
    keep = channel.keep_probability
    best = float(np.maximum(np.maximum(q, 1 - q), keep).mean())
    rate = float(Holder.of(truth, shares, found.beliefs).successes([channel]).mean())
    error = 0.5 / math.sqrt(len(truth))
    assert best - 0.02 < rate < best + 4 * error
    # The same formula with the probabilities of a predictor as they come, too sure of themselves.
    from sklearn.tree import DecisionTreeClassifier

    half = len(truth) // 2
    tree = DecisionTreeClassifier(min_samples_leaf=5, random_state=0).fit(X[:half], truth[:half])
    given = np.clip(tree.predict_proba(X[half:]), 1e-3, 1 - 1e-3)
    plugged = float(np.maximum(given.max(axis=1), keep).mean())
    honest = float(_chances(np.log(given), truth[half:], [channel]).mean())
    limit = float(np.maximum(np.maximum(q, 1 - q), keep)[half:].mean())
    assert plugged > limit + 0.05
    assert honest < limit + 4 * 0.5 / math.sqrt(half)


def test_probabilities_are_calibrated_and_of_the_predictor_with_the_least_log_loss():
    X, _, truth = known_table(4_000, seed=1)
    known = KnownColumns.of(X, hidden=set(), label=None)
    beliefs = cross_fitted(known, truth, np.random.default_rng(0)).beliefs
    assert beliefs.predictor == "linear model"
    chance = np.exp(beliefs.log_probabilities[:, 1])
    np.testing.assert_allclose(np.exp(beliefs.log_probabilities).sum(axis=1), 1.0)
    for low, high in ((0.2, 0.4), (0.4, 0.6), (0.6, 0.8)):
        inside = (chance > low) & (chance < high)
        spread = 4 * 0.5 / math.sqrt(inside.sum())
        assert truth[inside].mean() == pytest.approx(chance[inside].mean(), abs=spread)
    loss = -beliefs.log_probabilities[np.arange(len(truth)), truth].mean()
    margin = np.where(truth == 1, 1, -1) * 0.5 * X["x0"]
    assert loss == pytest.approx(-log_expit(margin).mean(), abs=0.01)


def test_a_look_up_is_believed_where_it_knows_most():
    rng = np.random.default_rng(4)
    home = np.repeat(np.arange(300), 4)
    answer = rng.integers(0, 2, 300)[home].astype(np.intp)
    order = rng.permutation(1200)
    table = pd.DataFrame({"home": home[order], "x": rng.normal(size=1200)})
    known = KnownColumns.of(table, hidden=set(), label=None)
    found = cross_fitted(known, answer[order], np.random.default_rng(0))
    assert found.rates[f"{found.beliefs.predictor}, calibrated"] > 0.99


def attacked_table(kind: str) -> tuple[pd.DataFrame, pd.Series, list[str]]:
    """A table, and the columns that are protected."""
    rng = np.random.default_rng(5)
    n = 900
    X = pd.DataFrame({"age": rng.normal(size=n), "height": rng.normal(size=n)})
    yes = rng.random(n) < expit(2 * X["age"])
    towns = rng.integers(0, 10, n)
    towns = np.where(rng.random(n) < 0.5, (X["age"] > 0) * 3, towns)
    X["town"] = pd.Categorical(
        [f"t{at}" for at in towns], categories=[f"t{at}" for at in range(10)]
    )
    y = pd.Series(pd.Categorical(yes), name="ill")
    if kind == "ten answers":
        return X, y, ["town"]
    if kind == "two columns":
        return X, y, ["town", "ill"]
    if kind == "rare":
        rare = rng.random(n) < 0.03 + 0.05 * (X["age"] > 1)
        return X, pd.Series(pd.Categorical(rare), name="ill"), ["ill"]
    if kind == "three answers":
        third = np.where(rng.random(n) < 0.3, 2, yes.astype(int))
        return X, pd.Series(pd.Categorical(third), name="ill"), ["ill"]
    return X, y, ["ill"]


@pytest.mark.parametrize(
    "kind", ["two answers", "three answers", "ten answers", "two columns", "rare"]
)
def test_every_attack_stays_below_the_ceiling_at_the_upper_bound(kind):
    X, y, protect = attacked_table(kind)
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["town"]), (StandardScaler(), ["age", "height"])),
        LogisticRegression(),
    )
    study = AttackStudy(model).fit(X[:600], y[:600], X[600:], y[600:])
    grid = [0.05, 1.0, 4.0, math.inf]
    curve = study.estimate(protect=protect, epsilon=grid, shadow_models=64)
    cells = curve.document.cells
    for cell in cells:
        ceiling = cell.answer_inference_ceiling
        # Of 600 people, 1e-5 one-sided; of 64 models, their own spread over releases.
        error = 4.3 * 0.5 / math.sqrt(600)
        assert cell.holder_rate - error <= ceiling
        assert cell.answer_inference_low <= ceiling
        # Both lie below it by themselves too: the bound of b leaves room.
        assert cell.holder_rate <= ceiling + 1e-12
        assert cell.answer_inference_rate <= ceiling
        assert cell.holder_rate_low <= cell.holder_rate <= cell.holder_rate_high
    rates = [cell.holder_rate for cell in cells]
    assert rates[-1] == 1.0
    first = cells[0]
    assert rates[0] <= guess_ceiling(first.answer_inference_baseline, first.advantage) + 1e-12
    assert rates == sorted(rates) or max(-np.diff(rates)) < 0.01
    assert curve.document.number_types["holder_rate"] == "measured"


def test_groups_have_rates_a_baseline_and_a_ceiling_of_their_own():
    """Of the old the answer is known from their age, of the young it is a coin."""
    rng = np.random.default_rng(6)
    n = 1200
    old = rng.random(n) < 0.4
    X = pd.DataFrame({"age": np.where(old, 2.0, -1.0) + 0.1 * rng.normal(size=n)})
    X["height"] = rng.normal(size=n)
    y = pd.Series(
        pd.Categorical(np.where(old, rng.random(n) < 0.97, rng.random(n) < 0.5)), name="y"
    )
    study = AttackStudy(LogisticRegression()).fit(X[:800], y[:800], X[800:], y[800:])
    groups = {"old": old[:800], "young": ~old[:800]}
    asked = {"protect": "y", "epsilon": [0.5, 2.0], "shadow_models": 64}
    document = study.estimate(**asked, groups=groups).document
    assert [(cell.group, cell.epsilon) for cell in document.group_cells] == [
        *(("old", 0.5), ("old", 2.0), ("young", 0.5), ("young", 2.0))
    ]
    # Everybody's cells are those without groups.
    assert document.cells == study.estimate(**asked).document.cells
    by_group = {(cell.group, cell.epsilon): cell for cell in document.group_cells}
    for cell in document.cells:
        parts = [by_group[name, cell.epsilon] for name in groups]
        shares = [part.n_people / 800 for part in parts]
        assert sum(shares) == 1.0
        whole = sum(s * part.holder_rate for s, part in zip(shares, parts, strict=True))
        assert whole == pytest.approx(cell.holder_rate)
        for part in parts:
            # 1e-5 one-sided, of the people in the group.
            error = 4.3 * 0.5 / math.sqrt(part.n_people)
            assert part.holder_rate - error <= part.answer_inference_ceiling
            assert part.answer_inference_low <= part.answer_inference_ceiling
            assert part.asr_max is None
        known, coins = parts
        assert known.answer_inference_baseline > 0.9 > 0.62 > coins.answer_inference_baseline
        assert known.answer_inference_ceiling > coins.answer_inference_ceiling
    assert len(view(document).tables) == 3
    names = {cell.group for cell in anonymise(document).group_cells}
    assert names == {"group 1", "group 2"}
    few = np.zeros(800, dtype=bool)
    few[:5] = True
    with pytest.raises(InputError, match="at least 30 training records in every group"):
        study.estimate(**asked, groups={"few": few})
    with pytest.raises(InputError, match="true or false for each of the 800"):
        study.estimate(**asked, groups={"few": np.arange(3)})


def test_near_certainty_is_no_more_than_certain():
    """Sums of probabilities are rounded: a rate above 1 has no range."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        sizes = rng.integers(2, 5, size=2)
        n_answers = int(np.prod(sizes))
        channels = [RandomizedResponse(int(k), float(rng.uniform(8, 40))) for k in sizes]
        truth = rng.integers(0, n_answers, size=40)
        shares = np.log(np.full(n_answers, 1.0 / n_answers))
        holder = Holder.of(truth, shares, None)
        found = holder.rate(holder.successes(channels))
        assert (
            0.0
            <= found["holder_rate_low"]
            <= found["holder_rate"]
            <= found["holder_rate_high"]
            <= 1.0
        )


@pytest.mark.parametrize("sampled", [False, True], ids=["everybody", "a sample"])
def test_nine_in_ten_releases_lie_within_the_range(sampled):
    """600 releases of 900 people with three answers each; the share has a standard error of 0.0122.

    With a sample the people are drawn anew for every release, as the range says.
    """
    rng = np.random.default_rng(5)
    channel = RandomizedResponse(3, 1.0)
    prior = rng.dirichlet(np.full(3, 0.8), size=900)
    truth = np.array([rng.choice(3, p=p) for p in prior])
    inside = 0
    for _ in range(600):
        people = np.sort(rng.permutation(900)[:300]) if sampled else np.arange(900)
        beliefs = Beliefs(people, np.arange(3), np.log(prior[people]), None)
        holder = Holder(people, truth[people], beliefs, np.log(np.full(3, 1 / 3)), 900)
        found = holder.rate(holder.successes([channel]))
        reports = (rng.random((900, 1)) > np.cumsum(channel.matrix[truth], axis=1)).sum(axis=1)
        guesses = (prior * channel.matrix[:, reports].T).argmax(axis=1)
        share = np.mean(guesses == truth)
        inside += found["holder_rate_low"] <= share <= found["holder_rate_high"]
    assert 0.9 - 3 * 0.0122 < inside / 600 < 0.9 + 3 * 0.0122
