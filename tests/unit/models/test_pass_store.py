from __future__ import annotations

import numpy as np

from epsilens.models.passes import PassStore


def test_a_pass_that_was_asked_something_else_is_not_taken(tmp_path):
    theta = np.ones(2)
    PassStore(tmp_path / "kept", {}).begin("fit", (theta,)).keep({"total": theta}, 3)

    def found(what, asked):
        return PassStore(tmp_path / "kept", {}).begin(what, asked).found

    assert found("fit", (theta,)) is not None
    assert found("fit", (2 * theta,)) is None
    assert found("curvature", (theta,)) is None
