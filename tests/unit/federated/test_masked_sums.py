# SPDX-License-Identifier: Apache-2.0
"""Sums under masks: right to the last digits, unreadable one by one, refused rather than cut off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from epsilens.errors import InputError
from epsilens.federated import Coordinator, LocalParties, Records, Site, add_up
from epsilens.federated.masked_sums import Masking
from epsilens.federated.parties import TOGETHER, MaskedLocalParties
from epsilens.federated.plan import carry_out, story

from .conftest import contract, make_sites

pytest.importorskip("cryptography")


class Overheard(MaskedLocalParties):
    """Writes down all that the coordinator receives."""

    def __init__(self, sites):
        super().__init__(sites)
        self.heard = []

    def answers(self, group, question, *, keys):
        found = super().answers(group, question, keys=keys)
        self.heard += [(question, i, vector) for i, vector in found.items()]
        return found


@pytest.mark.parametrize("n_labels", [2, 3])
def test_a_federation_under_masks_is_the_same_federation(n_labels):
    schema = contract(n_labels)
    steps, _ = story(
        schema, epsilon=3.0, n_sites=5, changes=[{2: 1.0}, {0: 1.0, 3: 2.0}], remove=[1, 4]
    )
    plain = Coordinator(schema, LocalParties(make_sites(schema)), regularisation=1e-2)
    masked = Coordinator(schema, Overheard(make_sites(schema)), regularisation=1e-2)
    carry_out(plain, steps)
    carry_out(masked, steps)
    for a, b in zip(plain.versions, masked.versions, strict=True):
        # The whole numbers are finer than float64 adds up; but rounds begin elsewhere, and end where the
        # gradient is below 1e-10: with a curvature of at least 1e-2, 1e-8 from the optimum.
        np.testing.assert_allclose(b.theta, a.theta, rtol=0, atol=2e-8)
        assert (a.model_budgets, a.advice, a.converged) == (b.model_budgets, b.advice, b.converged)
    assert list(plain.parties.ledger()) == list(masked.parties.ledger())


def test_a_single_answer_is_noise_and_the_sum_is_exact(schema, sites):
    parties = Overheard(sites)
    theta = np.linspace(-0.5, 0.5, schema.n_parameters)
    found = parties.sums(theta)[TOGETHER]
    plain = add_up(site.sums(theta) for site in sites)
    size = sum(np.abs(site.sums(theta).hessian) for site in sites)
    assert (np.abs(found.hessian - plain.hessian) <= 1e-12 * size).all()
    assert found.loss == pytest.approx(plain.loss, rel=1e-12)
    assert (found.n, len(parties.heard)) == (plain.n, 2 * len(sites))
    # Encoded numbers lie in a quarter of the range; masked ones fill it all. 180 numbers: the mean of
    # a uniform share is within 0.5 ± 0.1 but for one case in millions.
    vectors = [vector for _, _, vector in parties.heard[5:]]
    top = np.concatenate(vectors) / 2.0**64
    assert 0.4 < top.mean() < 0.6
    assert ((top > 0.25) & (top < 0.75)).mean() > 0.3
    # Any four of five tell no more.
    question = parties.heard[5][0]
    partial = question.form(schema).decode(np.sum(vectors[:4], axis=0, dtype=np.uint64))
    assert np.abs(partial).max() > np.abs(plain.hessian).max()


def test_what_would_be_cut_off_is_refused(schema):
    wild = Records(np.array([[0, 0, 0, 1], [1, 2, 1, 0]]), np.array([[40.0], [1e9]]))
    sites = [*make_sites(schema)[:2], Site(2, schema, wild, epsilon=3.0, seed=1)]
    with pytest.raises(InputError, match="outside the bounds that the contract gives") as raised:
        MaskedLocalParties(sites).sums(np.zeros(schema.n_parameters))
    assert "1e9" not in str(raised.value)


def test_an_answer_is_given_once_and_to_the_whole_group(schema, sites):
    parties = Overheard(sites[:3])
    parties.sums(np.zeros(schema.n_parameters))
    group, asked = next(iter(parties._parts)), parties.heard[-1][0]
    part = parties._parts[group[0], 0]
    with pytest.raises(InputError, match="answered question 1 of this group already"):
        part.answer(sites[0], asked)
    fewer = type(asked)(9, "sums", asked.theta, True, (), {0: sites[0].n, 1: sites[1].n})
    with pytest.raises(InputError, match="only together with the whole group"):
        part.answer(sites[0], fewer)
    other = Masking.begin()
    with pytest.raises(InputError, match="under another key than its own"):
        other.meet(0, {0: Masking.begin().public, 1: Masking.begin().public})
    with pytest.raises(InputError, match="at least 2 sites"):
        MaskedLocalParties(sites[:1]).sums(np.zeros(schema.n_parameters))
    with pytest.raises(InputError, match="Use the algorithm `newton`"):
        Coordinator(schema, parties).train(algorithm="fedavg", learning_rate=0.1)


def test_masks_depend_on_the_whole_question_and_a_site_knows_its_own_n(schema, sites):
    parties = Overheard(sites[:2])
    parties.sums(np.zeros(schema.n_parameters))
    asked = parties.heard[-1][0]
    labels = {
        replace(asked, **{name: value}).label(schema)
        for name, value in {
            "number": 7,
            "what": "difference",
            "theta": asked.theta + 1e-9,
            "hessian": False,
            "pending": (1,),
            "records": {0: sites[0].n, 1: sites[1].n + 1},
        }.items()
    }
    assert len(labels | {asked.label(schema)}) == 7
    part = parties._parts[next(iter(parties._parts))[0], 0]
    wrong = replace(asked, number=7, records={0: sites[0].n + 1, 1: sites[1].n})
    with pytest.raises(InputError, match="site 0 takes part with 120 records, and the question"):
        part.answer(sites[0], wrong)


def test_masks_that_do_not_fit_are_found_before_anything_is_asked(schema, sites):
    class Swapped(MaskedLocalParties):
        def keys(self, group, sites):
            found = super().keys(group, sites)
            # Site 1 meets with a key that nobody else was told.
            self._parts[group, 1] = Masking.begin()
            return found

        def answers(self, group, question, *, keys):
            own = {**keys, 1: self._parts[group, 1].public}
            for i in question.records:
                met = self._parts[group, i].meet(i, own if i == 1 else keys)
                self._parts[group, i] = met
            return super().answers(group, question, keys=None)

    parties = Swapped(sites)
    asked = []
    for site in sites:
        site.sums = lambda *args, **options: asked.append(args)
    with pytest.raises(InputError, match="beyond what the contract allows"):
        parties.sums(np.zeros(schema.n_parameters))
    assert asked == []


def test_rounds_under_masks_begin_at_a_new_model_each_time(schema):
    parties = Overheard(make_sites(schema))
    leader = Coordinator(schema, parties, regularisation=1e-2)
    leader.train()
    leader.train()
    leader.change({2: 1.0}, rung="exact")
    leader.remove([4], rung="exact")
    asked = [question for question, i, _ in parties.heard if i == 0 and question.what == "sums"]
    # Over different sites or draws, no two sums are at the same model; zeros are nobody's.
    assert len({question.theta.tobytes() for question in asked}) == len(asked)
    assert all(question.theta.any() for question in asked)
    assert [version.converged for version in leader.versions] == [True] * 4
    # What comes of it is at the level of the new draw, as from zeros.
    assert leader.versions[2].model_epsilon == 1.0


def test_a_removal_that_stopped_goes_on_with_the_sums_that_were_given(schema):
    kept = {}
    parties = MaskedLocalParties(make_sites(schema))
    leader = Coordinator(
        schema, parties, regularisation=1e-2, keep=lambda state: kept.update(last=state)
    )
    leader.train()
    leave, parties.leave = parties.leave, lambda sites: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        leader.remove([1, 4])
    # Only their sum is here, and it is kept apart: the two can go now.
    assert set(kept["last"].sums) == {TOGETHER, 1}
    parties.leave = leave
    parties.leave([1, 4])
    again = Coordinator(schema, parties, regularisation=1e-2, state=kept["last"])
    plain = Coordinator(schema, LocalParties(make_sites(schema)), regularisation=1e-2)
    plain.train()
    # Both begin 1e-8 from the optimum or nearer.
    np.testing.assert_allclose(again.resume().theta, plain.remove([1, 4]).theta, rtol=0, atol=2e-8)
    assert again.state.sums is None
