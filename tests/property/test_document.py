# SPDX-License-Identifier: Apache-2.0
"""Saving and loading a document is the identity, whatever numbers and names it holds."""

from __future__ import annotations

import json
import math
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from epsilens.document import (
    AuditDocument,
    Baseline,
    Document,
    EquivalentEpsilon,
    MaskDocument,
    Note,
    Provenance,
    RiskCell,
    RiskDocument,
    WhatIfCell,
    WhatIfDocument,
    anonymise,
    example_document,
    load_document,
    to_dict,
    to_json,
)
from epsilens.document.risk import CELL_WORDS
from epsilens.notes import NOTES

numbers = st.none() | st.floats(allow_nan=True, allow_infinity=True)
budgets = st.floats(min_value=0, allow_infinity=True, allow_nan=False)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
said = st.text(st.characters(exclude_categories=["Cs", "Co"]), max_size=20)
notes = st.lists(st.builds(Note, st.sampled_from(sorted(NOTES)), said), max_size=3)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def cells(draw: st.DrawFn) -> WhatIfCell:
    ends = sorted(draw(st.tuples(*[st.floats(allow_nan=False)] * 2)))
    return WhatIfCell(
        group=draw(names),
        epsilon=draw(st.none() | budgets),
        record_epsilon=draw(budgets),
        method=draw(st.sampled_from(["influence", "newton", "exact", "retrain", "paper"])),
        loss_change=draw(numbers),
        loss_change_low=ends[0],
        loss_change_high=ends[1],
        accuracy_change=draw(numbers),
        trusted=draw(st.booleans()),
    )


@st.composite
def documents(draw: st.DrawFn) -> WhatIfDocument:
    return WhatIfDocument(
        provenance=Provenance(
            method=draw(names),
            settings=draw(st.dictionaries(names, json_values, max_size=4)),
            seed=draw(st.none() | st.integers(min_value=0)),
            seconds=draw(numbers),
        ),
        notes=draw(notes),
        baseline=Baseline(
            loss=draw(numbers), accuracy=None, auc=None, n_train=1, n_test=1, n_parameters=1
        ),
        cells=draw(st.lists(cells(), max_size=4)),
    )


@st.composite
def risks(draw: st.DrawFn) -> RiskDocument:
    mechanism = draw(st.sampled_from(["rr", "dpsgd"]))
    ends = sorted(draw(st.tuples(*[st.floats(allow_nan=False)] * 2)))
    settled = {"epsilon", "mechanism", "answer_inference_low", "answer_inference_high"}
    settled |= {"holder_rate_low", "holder_rate_high", "group_epsilons"}
    settled |= {"envelope_tpr_low", "envelope_tpr_high"}
    own = {name: st.none() | budgets for name in ("record_epsilon", "epsilon_lower_bound")}
    own |= {name: st.none() | st.sampled_from(["lira", "rmia"]) for name in CELL_WORDS}
    own |= {"envelope_records": st.none() | st.integers(0, 10**6)}
    cells = [
        RiskCell(
            epsilon=draw(budgets),
            mechanism=mechanism,
            answer_inference_low=ends[0],
            answer_inference_high=ends[1],
            holder_rate_low=ends[0],
            holder_rate_high=ends[1],
            envelope_tpr_low=ends[0],
            envelope_tpr_high=ends[1],
            **{
                name: draw(own.get(name, numbers))
                for name in RiskCell.model_fields
                if name not in settled
            },
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    return RiskDocument(
        provenance=Provenance(
            method=draw(names), settings=draw(st.dictionaries(names, json_values, max_size=4))
        ),
        notes=draw(notes),
        n_models=draw(st.integers(min_value=0)),
        n_targets=draw(st.integers(min_value=0)),
        protect=draw(st.lists(names, max_size=3)),
        cells=cells,
        equivalent_epsilon=[
            EquivalentEpsilon(**{name: draw(st.none() | budgets) for name in part})
            for part in [EquivalentEpsilon.model_fields] * draw(st.integers(0, 2))
        ],
    )


@given(documents() | risks())
@settings(max_examples=120, deadline=None)
def test_saving_and_loading_is_the_identity(document: WhatIfDocument | RiskDocument) -> None:
    assert load_document(to_json(document)) == document
    assert load_document(to_dict(document)) == document


def one_of_every_kind(build) -> list[Document]:
    audit = AuditDocument(
        provenance=Provenance(method="approximate"),
        mechanism="gaussian-sum",
        epsilon_lower_bound=1.1,
        confidence=0.95,
        method="approximate",
        selection="path",
        is_confidence_bound=True,
        assumptions=["(epsilon, delta)-differential privacy"],
        claimed_epsilon=math.inf,
        claimed_delta=1e-6,
        true_epsilon=None,
        is_broken=False,
        verdict="no evidence of a breach",
        n_canaries=1000,
        n_guesses=86,
        n_correct=74,
    )
    mask = MaskDocument(
        provenance=Provenance(method="shap"),
        kept=["speed"],
        masked=["gait"],
        alpha=0.2,
        utility_kept=0.97,
        privacy_kept=0.4,
        solver="exact",
    )
    made = [
        build.make_whatif(epsilons=[0.5, math.inf]),
        build.make_risk(epsilons=[0.5, math.inf]),
        build.make_decision(epsilons=[0.5, 2.0]),
        build.make_release(),
        build.make_inspect(),
        build.make_value(),
        build.make_federation(),
    ]
    found = [*made, audit, mask, example_document("training")]
    assert {type(document) for document in found} == set(get_args(Document))
    return found


def scaled(value: object, factor: float) -> object:
    """Multiply every number that is not whole: all bits of it change, and no order between two."""
    if isinstance(value, dict):
        return {key: scaled(inner, factor) for key, inner in value.items()}
    if isinstance(value, list):
        return [scaled(inner, factor) for inner in value]
    return value * factor if isinstance(value, float) else value


@given(st.floats(0.5, 1.0))
@settings(max_examples=30, deadline=None)
def test_saving_and_loading_is_the_identity_for_every_kind(build, factor: float) -> None:
    for plain in one_of_every_kind(build):
        document = load_document(scaled(to_dict(plain), factor))
        assert type(document) is type(plain)
        assert load_document(to_json(document)) == document
        assert load_document(to_dict(document)) == document


@given(documents() | risks())
@settings(max_examples=120, deadline=None)
def test_what_is_written_is_strict_json(document: WhatIfDocument | RiskDocument) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert json.loads(to_json(document), parse_constant=refuse) == to_dict(document)


@given(documents())
@settings(max_examples=60, deadline=None)
def test_anonymising_keeps_every_number_of_every_cell(document: WhatIfDocument) -> None:
    hidden = anonymise(document)
    for before, after in zip(document.cells, hidden.cells, strict=True):
        assert before.model_dump(exclude={"group"}) == after.model_dump(exclude={"group"})
    # One name for one group, another for another.
    pairs = {(a.group, b.group) for a, b in zip(document.cells, hidden.cells, strict=True)}
    assert len({old for old, _ in pairs}) == len({new for _, new in pairs}) == len(pairs)


@given(risks())
@settings(max_examples=60, deadline=None)
def test_anonymising_keeps_every_number_of_a_risk(document: RiskDocument) -> None:
    hidden = anonymise(document)
    assert hidden.cells == document.cells
    assert hidden.equivalent_epsilon == document.equivalent_epsilon
    pairs = set(zip(document.protect, hidden.protect, strict=True))
    assert len({old for old, _ in pairs}) == len({new for _, new in pairs}) == len(pairs)


@given(st.floats(allow_nan=True))
def test_no_metric_is_ever_nan(value: float) -> None:
    cell = WhatIfCell(
        group="all", epsilon=1.0, record_epsilon=1.0, method="exact", loss_change=value
    )
    assert cell.loss_change is None if math.isnan(value) else cell.loss_change == value
