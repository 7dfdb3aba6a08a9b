from __future__ import annotations

import numpy as np
import pytest

from epsilens.document import MaskDocument, MaskFeature, MaskPoint, Provenance
from epsilens.errors import InputError
from epsilens.show import mask_chart, mask_picture, save_chart


def made(n=4, *, curve=True):
    features = [
        MaskFeature(name=f"f{j}", utility=j / n, privacy=1 - j / n, kept_share=float(j > 0))
        for j in range(n)
    ]
    points = [
        MaskPoint(
            alpha=alpha,
            n_masked=1,
            utility_kept=1.0,
            privacy_kept=1 - alpha,
            utility_accuracy=0.8,
            identity_accuracy=0.5 - alpha / 4,
        )
        for alpha in (0.0, 0.5, 1.0)
    ]
    return MaskDocument(
        provenance=Provenance(method="shap"),
        kept=[f.name for f in features[1:]],
        masked=["f0"],
        alpha=0.2,
        utility_kept=1.0,
        privacy_kept=0.5,
        solver="exact",
        identity_guess=0.2,
        utility_guess=0.4,
        features=features,
        curve=points if curve else [],
    )


def test_features_and_curve_are_drawn(tmp_path):
    chart = mask_chart(made())
    assert len(chart.to_dict()["vconcat"]) == 2
    text = save_chart(chart, tmp_path / "mask.svg").read_text()
    for words in ("f0", "1 of 4 masked at α = 0.2", "estimated by SHAP"):
        assert words in text
    # Both lines of the curve are named in a legend.
    assert text.count(">the task<") == text.count(">recognising people<") == 1
    assert len(mask_chart(made(curve=False)).to_dict()["vconcat"]) == 1


def test_a_title_that_is_longer_than_a_narrow_chart_is_folded():
    assert isinstance(mask_chart(made()).to_dict()["title"]["text"], str)
    lines = mask_chart(made(), width=250).to_dict()["title"]["text"]
    assert lines == ["Which features identify,", "and which serve the task"]


def test_of_many_features_the_masked_are_named(tmp_path):
    text = save_chart(mask_chart(made(60)), tmp_path / "mask.svg").read_text()
    assert ">f0<" in text
    assert ">f7<" not in text


def test_a_mask_of_pixels_is_a_picture(tmp_path):
    kept = np.array([True, False, True, True, True, True])
    chart = mask_picture({"identifies": np.arange(6.0), "kept": kept}, shape=(2, 3))
    content = chart.to_dict()
    assert [part["title"]["text"] for part in content["hconcat"]] == ["identifies", "kept"]
    text = save_chart(chart, tmp_path / "mask.svg").read_text()
    assert text.count("#111111") + text.count("rgb(17, 17, 17)") == 1  # the one masked pixel
    with pytest.raises(InputError, match="each of the 3 × 3 pixels"):
        mask_picture({"kept": kept}, shape=(3, 3))


def test_nothing_to_draw_is_said():
    with pytest.raises(InputError, match="no features to draw"):
        mask_chart(made().model_copy(update={"features": []}))
