# SPDX-License-Identifier: Apache-2.0
"""Every chart that we give away: no name in it becomes markup, and nothing is loaded from elsewhere."""

from __future__ import annotations

import copy
import io
import json
import pickle
import re

import altair as alt
import pytest

from epsilens.document import AuditDocument, MaskDocument, MaskFeature, Provenance, ValuePoint
from epsilens.show import (
    audit_chart,
    comparison_chart,
    cost_chart,
    decision_chart,
    federation_chart,
    mask_chart,
    mask_picture,
    risk_chart,
    value_chart,
)

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(2)>"


def audit() -> AuditDocument:
    return AuditDocument(
        provenance=Provenance(method="pure"),
        mechanism="rr",
        epsilon_lower_bound=0.8,
        confidence=0.95,
        method="pure",
        selection="path",
        is_confidence_bound=True,
        assumptions=["pure differential privacy"],
        claimed_epsilon=1.0,
        claimed_delta=0.0,
        true_epsilon=1.0,
        is_broken=False,
        verdict="no evidence of a breach",
        n_canaries=1000,
        n_guesses=500,
        n_correct=365,
    )


def mask() -> MaskDocument:
    names = ("a", HOSTILE)
    return MaskDocument(
        provenance=Provenance(method="shap"),
        kept=["a"],
        masked=[HOSTILE],
        alpha=0.2,
        utility_kept=1.0,
        privacy_kept=0.5,
        solver="exact",
        identity_guess=0.2,
        utility_guess=0.4,
        features=[MaskFeature(name=n, utility=0.5, privacy=0.5, kept_share=1.0) for n in names],
        curve=[],
    )


def value(build):
    points = [
        ValuePoint(order=order, share=share, n_records=10, loss_change=share, standard_error=None)
        for order in ("score", "training loss", "random")
        for share in (0.1, 0.3)
    ]
    return build.make_value(scored="training", curve=points)


CHARTS = {
    "whatif": lambda build: cost_chart(build.make_whatif(groups=("all", HOSTILE))),
    "risk": lambda build: risk_chart(build.make_risk()),
    "audit": lambda build: audit_chart(audit()),
    "decision": lambda build: decision_chart(build.make_decision()),
    "mask": lambda build: mask_chart(mask()),
    "picture": lambda build: mask_picture({HOSTILE: [True, False]}, shape=(1, 2)),
    "value": lambda build: value_chart(value(build)),
    "federation": lambda build: federation_chart(build.make_federation()),
    "comparison": lambda build: comparison_chart(
        [(HOSTILE, build.make_decision()), ("b", build.make_whatif(loss_scale=0.5))]
    ),
}


@pytest.fixture(scope="module", params=CHARTS)
def chart(request, build):
    # Whatever the document, its chart then has the name.
    return CHARTS[request.param](build).properties(description=HOSTILE)


def scripts(page: str) -> list[str]:
    return re.findall(r"<script[^>]*>", page)


def test_a_page_holds_our_scripts_alone_and_every_name_as_it_is(chart, tmp_path):
    chart.save(tmp_path / "x.html", inline=False)
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert page == chart.to_html(base_url="https://cdn.example.org")
    assert scripts(page) == [
        '<script type="application/json" id="spec">',
        "<script>",
        "<script>",
    ]
    assert HOSTILE not in page
    spec = page.partition(scripts(page)[0])[2].partition("</script>")[0]
    assert json.loads(spec) == json.loads(chart.to_json())
    assert json.loads(spec)["description"] == HOSTILE


def test_a_notebook_shows_a_picture(chart):
    (kind, picture), *others = chart._repr_mimebundle_().items()
    assert (kind, others) == ("image/svg+xml", [])
    assert picture.startswith("<svg")
    assert "<script" not in picture
    assert "<img" not in picture


@pytest.fixture(scope="module")
def drawn(build):
    return CHARTS["whatif"](build)


@pytest.mark.parametrize("renderer", ["html", "colab", "kaggle", "zeppelin", "olli"])
def test_no_renderer_that_loads_scripts_is_used(drawn, renderer):
    with alt.renderers.enable(renderer):
        assert list(drawn._repr_mimebundle_()) == ["image/svg+xml"]


def test_a_renderer_of_data_is_the_readers_choice(drawn):
    with alt.renderers.enable("json"):
        found = drawn._repr_mimebundle_()
    assert "application/json" in (found[0] if isinstance(found, tuple) else found)


def test_a_browser_is_shown_the_same_page(drawn, monkeypatch):
    shown = []
    monkeypatch.setattr(
        "altair.utils._show.open_html_in_browser", lambda html, **how: shown.append(html)
    )
    with alt.renderers.enable("browser"):
        drawn.show()
    assert shown == [drawn.to_html()]


def test_a_changed_chart_is_still_ours(drawn):
    for changed in (
        drawn.copy(),
        copy.deepcopy(drawn),
        drawn.properties(width=200),
        drawn.interactive(),
        drawn.configure_axis(labelFontSize=9),
        drawn.resolve_scale(color="independent"),
        pickle.loads(pickle.dumps(drawn)),
    ):
        assert type(changed) is type(drawn)
        assert HOSTILE not in changed.to_html()


def test_other_formats_and_streams_are_written_as_before(drawn, tmp_path):
    drawn.save(tmp_path / "x.svg")
    drawn.save(tmp_path / "x.json")
    assert (tmp_path / "x.svg").read_text(encoding="utf-8").startswith("<svg")
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["layer"]
    stream = io.StringIO()
    drawn.save(stream, format="html")
    assert stream.getvalue() == drawn.to_html()
