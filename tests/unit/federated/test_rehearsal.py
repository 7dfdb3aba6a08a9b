# SPDX-License-Identifier: Apache-2.0
"""Contracts from tables, plans, division among sites, and the document of it all."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from epsilens.channels import Budget
from epsilens.data import infer_schema
from epsilens.document import Provenance, load_document, to_json
from epsilens.errors import InputError, PrivacyLeakWarning
from epsilens.federated import DeclaredColumn, FederationSchema
from epsilens.federated.as_document import federation_document
from epsilens.federated.declare import declare
from epsilens.federated.plan import PlannedOperation, story
from epsilens.federated.rehearsal import divide
from epsilens.federated.written import read_budget, read_ledger, read_version, read_wish
from epsilens.federated.written import version_record as record_of


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], 60),
            "age": rng.normal(44.7, 11.3, 60),
            "children": rng.integers(0, 4, 60),
        }
    )


def declared(frame, protect, **options):
    return declare(
        frame,
        infer_schema(frame),
        label="smokes",
        label_categories=["no", "yes"],
        protect=protect,
        **options,
    )


def test_a_contract_has_rounded_scales_and_declared_answers(frame):
    given = {"children": range(6), "smokes": ["no", "yes"]}
    with pytest.warns(
        PrivacyLeakWarning, match="centre and scale of 'age' are taken from the data"
    ):
        contract = declared(frame, ["smokes", "children"], categories=given)
    sex, age, children = contract.columns
    assert sex == DeclaredColumn("sex", ("f", "m"))
    assert (age.encoding, age.centre, age.scale) == ("number", round(age.centre), round(age.scale))
    assert children.categories == tuple("012345")
    assert (children.encoding, children.centre) == ("code", 2.5)
    assert contract.encode(frame.assign(smokes="no")).n == 60


def test_answers_from_the_data_are_warned_of_and_numbers_want_bins(frame):
    scales = {"age": (45.0, 10.0), "children": (1.0, 1.0)}
    with pytest.warns(PrivacyLeakWarning, match="'smokes', 'sex' are taken from the data"):
        contract = declared(frame, ["smokes", "sex"], scales=scales)
    assert contract.sizes == {"smokes": 2, "sex": 2}
    assert (contract.columns[1].centre, contract.columns[1].scale) == (45.0, 10.0)
    with pytest.raises(InputError, match="must name numbers that are not protected"):
        declared(frame, ["smokes"], scales={"sex": (0.0, 1.0)})
    with pytest.raises(
        InputError, match=r"Put them into bins: `bins=\{'age': Bins\(10, LOW, HIGH\)\}`"
    ):
        declared(frame, ["age"])
    with pytest.raises(InputError, match=r"got 'income'\. There are: smokes, sex, age, children"):
        declared(frame, ["income"])


def test_rows_are_divided_fairly_or_by_label():
    labels = pd.Series(["yes", "no"] * 50)
    at_random = divide(labels, n_sites=3, seed=1)
    assert sorted(np.concatenate(at_random)) == list(range(100))
    assert [len(rows) for rows in at_random] == [34, 33, 33]
    by_label = divide(labels, n_sites=4, skew="label", seed=1)
    assert [set(labels.iloc[rows]) for rows in by_label] == [{"no"}, {"no"}, {"yes"}, {"yes"}]
    with pytest.raises(InputError, match="but 101 sites are to share 100"):
        divide(labels, n_sites=101)
    with pytest.raises(InputError, match="`sites` must be"):
        divide(labels, n_sites=0)


def test_a_plan_previews_what_can_be_previewed(schema):
    def names(**options):
        steps, notes = story(schema, epsilon=3.0, n_sites=5, **options)
        return [step.operation for step in steps], notes

    assert names(changes=[{2: 1.0}]) == (["train", "preview", "change"], ())
    steps, notes = names(changes=[{2: 5.0}], mode="redraw")
    assert steps == ["train", "change"]
    assert "looser epsilon" in notes[0].text
    steps, notes = names(changes=[{2: 1.0}], mode="as_printed")
    assert steps == ["train", "change"]
    wide = FederationSchema(
        (DeclaredColumn("place", tuple(map(str, range(5000)))),), schema.label, ("place",)
    )
    steps, notes = story(wide, epsilon=3.0, n_sites=2, changes=[{0: 1.0}])
    assert len(steps) == 2
    assert "5000 combinations" in notes[0].text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"changes": [{7: 1.0}]}, "site 7 does not take part"),
        ({"changes": [{1: 4.0}]}, "noise cannot be taken away"),
        ({"changes": [{1: 1.0}, {1: 2.0}]}, "noise cannot be taken away"),
        ({"remove": [5]}, "site 5 does not take part"),
        ({"remove": [0, 1, 2, 3, 4]}, "at least one site must stay"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_before_any_work(schema, options, words):
    with pytest.raises(InputError, match=words):
        story(schema, epsilon=3.0, n_sites=5, **options)


def test_what_is_written_is_read_exactly_or_refused(coordinator):
    coordinator.change({2: 1.0})
    for version in coordinator.versions:
        back = read_version(record_of(version))
        np.testing.assert_array_equal(back.theta, version.theta)
        assert (back.model_budgets, back.sites) == (version.model_budgets, version.sites)
    step = PlannedOperation("change", {1: Budget({"a": 0.1})}, mode="redraw")
    assert PlannedOperation.from_dict(step.to_dict()) == step
    for read in (read_budget, read_wish, read_ledger):
        for text in ("", "[[", "3", '"x"', '{"a": -1}', '{"a": true}', "[{}]", "x" * 2**21):
            with pytest.raises(InputError):
                read(text)


def test_versions_and_ledger_become_a_document(coordinator):
    coordinator.preview({2: 1.0})
    coordinator.change({2: 1.0}, rung="exact")
    document = federation_document(coordinator, Provenance(method="newton"))
    assert load_document(to_json(document)) == document
    assert [v.operation for v in document.versions] == ["train", "preview", "change"]
    assert [v.model_epsilon for v in document.versions] == [3.0, 3.0, 1.0]
    assert document.n_sites == 5
    assert document.number_types["total_epsilon"] == "proven"
    assert [e.operation for e in document.ledger if e.site == 2] == ["train", "preview", "change"]
