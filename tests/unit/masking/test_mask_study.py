from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from epsilens.data import build_encoder, infer_schema
from epsilens.document import anonymise, load_document, to_json
from epsilens.errors import InputError, PrivacyLeakWarning
from epsilens.masking import MaskStudy, attack_masked
from epsilens.masking.records import EncodedTable

IDENTIFYING = ["gait", "voice", "town"]


def model_of(X):
    return make_pipeline(build_encoder(infer_schema(X)), LogisticRegression())


@pytest.fixture(scope="module")
def study(planted):
    return MaskStudy(model_of(planted.X)).fit(*planted.parts())


@pytest.fixture(scope="module")
def mask(study):
    return study.choose(alphas=(0.0, 0.5, 1.0))


def test_identifying_features_go_and_useful_ones_stay(mask):
    document = mask.document
    # A category of two columns is among them. What does neither may go: it serves nothing.
    assert [name for name in document.masked if name != "noise"] == IDENTIFYING
    assert (document.utility_kept, document.solver) == (1.0, "exact")
    assert document.privacy_kept < 0.1
    rows = {row.masking: row for row in document.outcomes}
    assert rows["none"].identity_accuracy > 0.9
    # Twenty in a hundred is what guessing one of five reaches; 600 records have an error of 1.6.
    assert rows["chosen"].identity_accuracy < 0.27
    assert rows["chosen"].utility_accuracy > rows["none"].utility_accuracy - 0.05
    assert rows["random"].utility_accuracy < rows["chosen"].utility_accuracy - 0.05
    assert [point.alpha for point in document.curve] == [0.0, 0.5, 1.0]
    assert "neither is private itself" in document.warnings[0]
    assert rows["none"].utility_change_error is None
    # Record by record the two agree on most, so that the change is surer than either accuracy.
    assert rows["chosen"].utility_change_error < rows["chosen"].utility_error
    # Five random masks differ by whether one of them hits a useful feature.
    assert rows["random"].utility_error > 1.2 * rows["chosen"].utility_error


def test_the_document_comes_back_and_travels_without_names(mask):
    assert load_document(to_json(mask.document)) == mask.document
    told = to_json(anonymise(mask.document))
    assert not any(name in told for name in (*IDENTIFYING, "speed", "pulse", "noise"))
    assert "neither is private itself" in told  # it names nothing, and must be said
    frame = mask.to_frame()
    assert frame.columns.tolist() == ["name", "utility", "privacy", "kept_share"]
    assert mask.keep_columns(pd.DataFrame({"gait": [1], "speed": [2]})).columns.tolist() == [
        "speed"
    ]


def test_public_records_alone_choose_the_mask(planted):
    """Whatever the private records are, the mask is the same."""
    masks = []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        X, y, who, *test = planted.parts()
        rows = rng.permutation(len(y))
        private = (X.iloc[rows].reset_index(drop=True), y, who)
        study = MaskStudy(model_of(planted.X)).fit(
            *private, *test, public=(planted.X, planted.y, planted.who)
        )
        found = study.choose(alphas=())
        assert found.document.explained_on == "public"
        assert "measured on private ones" in found.document.warnings[0]
        # Mixed up, the private records belong to nobody.
        assert "not clearly recognised better than by guessing" in found.document.warnings[1]
        masks.append([feature.privacy for feature in found.document.features])
    assert masks[0] == masks[1]


def test_a_mask_for_every_person_tells_who_it_is(study):
    with pytest.warns(PrivacyLeakWarning, match="which features are blank tells whose"):
        found = study.choose(scope="identity", alpha=0.5, standard_errors=0, alphas=())
    assert found.document.n_masks == 5
    # Nobody's features identify less, but their blanks do: a warning that is meant.
    assert found.document.outcomes[-1].identity_accuracy > 0.5


def test_other_ways_and_what_must_stay(study):
    asked = {"importances": study.importances(max_rows=100), "alphas": ()}
    held = study.choose(keep=["gait"], **asked).document
    assert [name for name in held.masked if name != "noise"] == ["voice", "town"]
    shares = {feature.name: feature.privacy for feature in held.features}
    assert held.privacy_kept >= shares["gait"] / sum(shares.values())
    assert any(
        "α = 0.9 cannot be met" in note
        for note in study.choose(keep=["gait"], alpha=0.9, **asked).document.warnings
    )
    assert not any("cannot be met" in note for note in held.warnings)
    drawn = study.choose(method="random", share=0.9, keep=["gait"], **asked).document
    assert "gait" in drawn.kept
    top = study.choose(method="top-share", share=1 / 6, **asked).document
    assert (top.masked, top.solver) == (["gait"], "top-share")
    assert len(study.choose(method="random", share=0.5, **asked).document.masked) == 3
    with pytest.raises(InputError, match="`keep` must name a column"):
        study.choose(keep=["height"], **asked)


def test_random_controls_keep_what_must_stay(study):
    others = [name for name in study.table_.names if name != "gait"]
    found = study.choose(keep=others, importances=study.importances(max_rows=100), alphas=())
    assert found.document.masked == ["gait"]
    # Where one feature may go, any feature at random is that one.
    _, drawn, chosen = found.document.outcomes
    assert (drawn.masking, drawn.n_masked) == ("random", 1)
    assert drawn.identity_accuracy == chosen.identity_accuracy
    assert drawn.utility_accuracy == chosen.utility_accuracy
    assert all((found.at_random(seed) == found.kept).all() for seed in range(5))


def test_no_mask_is_judged_by_the_records_that_chose_it(study):
    shown, judged = study._shown[1], study._test
    assert len(shown.y) + len(judged.y) == 600
    assert not np.intersect1d(shown.X.sum(axis=1), judged.X.sum(axis=1)).size
    assert np.bincount(shown.who) == pytest.approx(np.bincount(judged.who), abs=1)


def test_columns_that_the_encoder_leaves_out_are_kept(planted):
    encoder = ColumnTransformer([("scale", StandardScaler(), ["gait", "speed"])])
    study = MaskStudy(make_pipeline(encoder, LogisticRegression())).fit(*planted.parts())
    found = study.choose(alphas=()).document
    assert (found.masked, len(found.kept)) == (["gait"], 5)


def test_encoded_columns_are_found_by_asking(planted):
    encoder = build_encoder(infer_schema(planted.X))
    table = EncodedTable.learn(encoder, planted.X)
    names = encoder.fit(planted.X).get_feature_names_out()
    expected = [name.split("_")[0] for name in names]
    assert [table.names[j] for j in table.sources] == expected
    with pytest.raises(InputError, match="must come from one feature"):
        EncodedTable.learn(PolynomialFeatures(2), planted.X[["gait", "speed"]])


def test_a_gain_beyond_the_noise_is_seen_and_one_within_is_not():
    """Records of which 40 useless columns are learnt by heart: without these far less is exposed."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    X = np.column_stack([2 * y + 0.3 * rng.normal(size=60), rng.normal(size=(60, 40))])
    masks = {"chosen": np.arange(41) < 1, "random": np.arange(41) < 40}
    risk = attack_masked(
        X,
        y,
        masks,
        epsilon=[4.0, float("inf")],
        delta=1e-3,
        shadow_models=120,
        batch=15,
        epochs=8,
    )
    gains = {(r.masking, r.measure, r.epsilon): r.gain for r in risk.relaxed("chosen")}
    assert gains["chosen", "balanced_accuracy", 4.0] == "larger"
    assert {r.gain for r in risk.relaxed("random")} == {"within the noise"}
    assert all(r.low <= r.high for r in risk.relaxed("random") if r.low is not None)
    accuracy, error = risk.model_accuracy("chosen")
    assert (accuracy > 0.8).all()
    assert (error > 0).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({2: "label"}, "something else than the label"),
        ({2: "one"}, "`identity` must have at least two"),
        ({1: "one"}, "the label must have at least two"),
        ({2: "missing"}, "identity must be known of every record, but 1 of 600"),
        ({0: "nan"}, "must be finite numbers, but 1 values are missing"),
    ],
)
def test_bad_records_are_refused(planted, change, words):
    parts = list(planted.parts())
    parts[0], parts[3] = (part[["gait", "speed"]] for part in (parts[0], parts[3]))
    for place, what in change.items():
        if what == "label":
            parts[place] = parts[1]
        elif what == "one":
            parts[place] = np.array(["same"] * 600)
        elif what == "missing":
            parts[place] = parts[place].astype(object)
            parts[place][3] = None
        else:
            parts[place] = parts[place].assign(gait=np.r_[np.nan, parts[place]["gait"][1:]])
    with pytest.raises(InputError, match=words):
        MaskStudy(make_pipeline(StandardScaler(), LogisticRegression())).fit(*parts)


def test_a_regression_is_refused(planted):
    with pytest.raises(InputError, match="classifier that gives probabilities, got Ridge"):
        MaskStudy(Ridge()).fit(*planted.parts())
