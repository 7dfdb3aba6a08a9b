from __future__ import annotations

import io

import pytest
from rich.console import Console

from epsilens.document import ValuePoint, view
from epsilens.show import document_table


def shown(thing) -> str:
    console = Console(width=140, file=io.StringIO())
    console.print(thing)
    return console.file.getvalue()


def point(order, change, share=0.1, error=None):
    return ValuePoint(
        order=order, share=share, n_records=12, loss_change=change, standard_error=error
    )


def test_the_table_has_a_row_a_share_and_a_column_an_order(build):
    points = [
        point("score", -0.012),
        point("training loss", None),
        point("random", 0.003, error=0.0004),
    ]
    text = shown(document_table(build.make_value(curve=points)))
    assert "10 % (12)" in text
    assert "−0.012" in text
    assert "+0.003 ± 0.0004" in text
    assert "–" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mean": 2e-4}, "test loss rises by 0.0002 nats"),
        ({"mean": -2e-4}, "test loss falls by 0.0002 nats"),
        ({"scored": "candidates", "mean": 2e-4}, "With one more record the test loss falls"),
        ({"clearly_harmful": 7}, "7 by more than two standard errors"),
        ({"clearly_harmful": None}, "30 score below zero."),
        ({"paid": 100.0}, "100 divided in proportion"),
        ({"paid": 0.0}, "so nobody is paid"),
        ({"batch_factor": 1.5, "measured_batch_factor": 1.7}, "1.5 as expected from its size, 1.7"),
    ],
)
def test_sentences_say_it(build, changes, words):
    assert words in " ".join(view(build.make_value(**changes)).sentences)


def test_the_verdict_goes_both_ways(build):
    better = build.make_value(curve=[point("score", -0.01), point("score", 0.2, share=0.3)])
    assert "lowest-scored 10 % lowers the test loss by 0.01 nats" in " ".join(
        view(better).sentences
    )
    worse = build.make_value(curve=[point("score", 0.01)])
    text = " ".join(view(worse).sentences)
    assert "raises the test loss by 0.01 nats" in text
    assert "does not add up" in text


def test_the_verdict_is_of_one_share_fixed_beforehand(build):
    """The best of six would be chosen by the records that judge it."""
    curve = [
        point("score", -0.5, share=0.3),
        point("score", -0.01, error=0.02),
        point("random", 0.002, error=0.0004),
    ]
    text = " ".join(view(build.make_value(curve=curve)).sentences)
    assert (
        "10 % lowers the test loss by 0.01 ± 0.02 nats (as many at random: +0.002 ± 0.0004)" in text
    )
    assert "may be chance" in text
    assert "0.5 nats" not in text


def test_a_factor_that_cannot_be_measured_is_explained(build):
    curve = [point("score", 0.01, share=1.0, error=0.02)]
    known = {"scored": "candidates", "batch_factor": 1.5, "curve": curve}
    text = " ".join(view(build.make_value(**known)).sentences)
    assert "adding them all changes the test loss by +0.01 ± 0.02 nats" in text
    assert "no factor can be measured" in text
    without = build.make_value(**(known | {"curve": []}))
    assert "no factor" not in " ".join(view(without).sentences)
