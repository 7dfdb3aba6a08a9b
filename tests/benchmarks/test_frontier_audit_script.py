# SPDX-License-Identifier: Apache-2.0
"""The attacks on mechanisms: a claim of half of what is spent is found, an honest one is not."""

from __future__ import annotations

import json

import pytest

import frontier_audit
from epsilens.document import AuditCheck, MechanismAudit
from epsilens.mechanisms import audits
from epsilens.mechanisms.dp_ebm import DPEBM
from epsilens.mechanisms.noisy_descent import NoisyDescent

LEVEL = 0.9999


class HalfClaimed(NoisyDescent):
    """Spends twice what it says."""

    @property
    def advantage(self) -> float:
        return self.honest.advantage

    @classmethod
    def plan(cls, task, *, epsilon, **settings):
        found = super().plan(task, epsilon=2 * epsilon, **settings)
        object.__setattr__(found, "honest", NoisyDescent.plan(task, epsilon=epsilon, **settings))
        return found


def attacked(monkeypatch: pytest.MonkeyPatch, kind: type) -> object:
    monkeypatch.setattr(frontier_audit, "mechanism_class", lambda _: kind)
    return frontier_audit.many_runs("noisy-descent", 4.0, "answer", 2500, LEVEL)


def test_half_of_what_is_spent_is_no_claim(monkeypatch):
    check = attacked(monkeypatch, HalfClaimed)
    assert check.is_broken
    assert check.advantage_lower_bound > check.advantage


def test_an_honest_claim_is_not_broken(monkeypatch):
    assert not attacked(monkeypatch, NoisyDescent).is_broken


def test_one_run_of_an_honest_mechanism_proves_no_breach():
    check = frontier_audit.one_run("output-perturbation", 4.0, "record", LEVEL)
    assert (check.kind, check.is_broken) == ("one-run", False)


def test_a_mechanism_whose_claim_is_broken_is_not_offered(monkeypatch, tmp_path):
    """What was found is kept, and says why."""
    check = AuditCheck(
        kind="one-run",
        protects="record",
        epsilon=1.0,
        delta=1e-5,
        epsilon_lower_bound=1.1,
        n_runs=400,
    )
    found = MechanismAudit(
        library="epsilens 0", neighbours="replaced", confidence=LEVEL, checks=[check]
    )
    stored = tmp_path / "audits.json"
    stored.write_text(json.dumps({"noisy-descent": found.model_dump()}))
    monkeypatch.setattr(audits, "STORED", stored)
    audits.stored_audit.cache_clear()
    try:
        task, _ = frontier_audit.neighbours("answer")
        assert NoisyDescent.refusal(task) == found.sentence
        assert "claim is broken: 1 of 1" in found.sentence
        assert "not been attacked" in DPEBM.refusal(task)
    finally:
        audits.stored_audit.cache_clear()


def test_what_is_stored_breaks_no_claim():
    for name in json.loads(audits.STORED.read_text(encoding="utf-8")):
        found = audits.stored_audit(name)
        assert found is not None
        assert not found.is_broken, name
        assert {check.epsilon for check in found.checks} == {1.0, 4.0}
