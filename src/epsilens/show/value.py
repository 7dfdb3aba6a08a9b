# SPDX-License-Identifier: Apache-2.0
"""What records are worth: table, sentences and chart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epsilens.document import ValueDocument, ValuePoint, loss_unit
from epsilens.errors import InputError, setting
from epsilens.show.look import DASHES, SHADES, dressed, legend_layout, subtitle, value_axis
from epsilens.show.rounding import NOTHING, format_count
from epsilens.show.terminal import plain_table

if TYPE_CHECKING:
    import altair as alt
    from rich.table import Table

__all__ = [
    "value_chart",
    "value_sentences",
    "value_table",
]

_JUDGED_SHARE = 0.1
_CLEARLY = 2.0


def value_table(document: ValueDocument) -> Table:
    """Show what the test loss does as records go (or candidates come) in three orders.

    Parameters
    ----------
    document : ValueDocument
        With a curve.

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, ValueDocument, ValuePoint
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> points = [ValuePoint(order=order, share=0.1, n_records=8, loss_change=-0.01)
    ...           for order in ("score", "training loss", "random")]
    >>> value_table(ValueDocument(provenance=Provenance(method="exact"), baseline=start,
    ...     scored="training", n=75, mean=0.0, harmful=3, total=0.0, curve=points)).row_count
    1
    """
    goes = document.scored == "training"
    note = (
        "One half of the test records scores, the other half judges, and the other way round. "
        "±: standard error over test records, at random over orders."
    )
    title = f"Change of the test loss ({loss_unit(document)}, measured by training again)"
    table = plain_table(title, notes=[note])
    table.add_column("dropped" if goes else "added", justify="right", no_wrap=True)
    table.add_column("lowest score first" if goes else "highest score first", justify="right")
    table.add_column(
        "largest training loss first" if goes else "smallest loss first", justify="right"
    )
    table.add_column("at random", justify="right", no_wrap=True)
    shares = list(dict.fromkeys(point.share for point in document.curve))
    for share in shares:
        here = {point.order: point for point in document.curve if point.share == share}
        first = next(iter(here.values()))
        row = [f"{100 * (share or 0.0):.3g} % ({format_count(first.n_records)})"]
        for order in ("score", "training loss", "random"):
            point = here.get(order)
            if point is None or point.loss_change is None:
                row.append(NOTHING)
                continue
            row.append(_with_error(point))
        table.add_row(*row)
    return table


def value_sentences(document: ValueDocument) -> list[str]:
    """Say in words what was found.

    Parameters
    ----------
    document : ValueDocument

    Returns
    -------
    list of str
        One sentence each.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, ValueDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> value_sentences(ValueDocument(provenance=Provenance(method="exact"), baseline=start,
    ...     scored="training", n=75, mean=1e-4, harmful=30, total=7.5e-3))[0]
    'Without one record the test loss rises by 0.0001 nats on average, over 75 training records.'
    """
    unit, mean = loss_unit(document), document.mean or 0.0
    count = format_count(document.n)
    if document.scored == "training":
        moves = "rises" if mean >= 0 else "falls"
        first = (
            f"Without one record the test loss {moves} by {abs(mean):.3g} {unit} on average, over "
            f"{count} training records."
        )
    else:
        moves = "falls" if mean >= 0 else "rises"
        first = (
            f"With one more record the test loss {moves} by {abs(mean):.3g} {unit} on average, over "
            f"{count} candidates."
        )
    clearly = ""
    if document.clearly_harmful is not None:
        clearly = (
            f"; {format_count(document.clearly_harmful)} by more than two standard errors of this "
            "test set, the others may be chance"
        )
    sentences = [first, f"{format_count(document.harmful)} score below zero{clearly}."]
    sentences += _verdict(document)
    if document.batch_factor is not None:
        measured = ""
        if document.measured_batch_factor is not None:
            measured = f", {document.measured_batch_factor:.3g} when really adding them all"
        sentences.append(
            f"Records of one batch are partly redundant: their sum overstates the batch by a factor of "
            f"{document.batch_factor:.3g} as expected from its size{measured}."
        )
        sentences += _why_not_measured(document)
    if document.paid == 0:
        sentences.append("No record has a positive score, so nobody is paid.")
    elif document.paid is not None:
        sentences.append(
            f"{document.paid:,.6g} divided in proportion to the positive scores; harmful records get "
            "nothing."
        )
    return sentences


def _why_not_measured(document: ValueDocument) -> list[str]:
    """Say why really adding all candidates gave no factor, if it was tried."""
    if document.measured_batch_factor is not None:
        return []
    for point in document.curve:
        if point.order == "score" and point.share == 1.0 and point.loss_change is not None:
            return [
                f"Really adding them all changes the test loss by {_with_error(point)} "
                f"{loss_unit(document)}, which is within two standard errors or against the sign of "
                "the scores' sum: no factor can be measured from it."
            ]
    return []


def _verdict(document: ValueDocument) -> list[str]:
    """Say whether the order of the scores is of use: single scores need not add up.

    By one share, fixed beforehand: the best of several would be chosen by the records that judge it.
    """
    shares = [point.share for point in document.curve if point.share is not None]
    if not shares:
        return []
    share = min(shares, key=lambda known: abs(known - _JUDGED_SHARE))
    here = {point.order: point for point in document.curve if point.share == share}
    point, other = here.get("score"), here.get("random")
    if point is None or point.loss_change is None:
        return []
    goes = document.scored == "training"
    what = "Dropping the lowest-scored" if goes else "Adding the highest-scored"
    change = point.loss_change
    moves = "lowers" if change < 0 else "raises"
    error = _error(point)
    beside = ""
    if other is not None and other.loss_change is not None:
        beside = f" (as many at random: {_with_error(other)})"
    said = (
        f"{what} {100 * share:.3g} % {moves} the test loss by {abs(change):.3g}{error} "
        f"{loss_unit(document)}{beside}, measured on test records that did not score"
    )
    if change >= 0:
        return [
            f"{said}: what single records are worth does not add up, and a few test records can "
            "mislead."
        ]
    if point.standard_error is not None and -change <= _CLEARLY * point.standard_error:
        return [f"{said}; that is within two standard errors and may be chance."]
    return [f"{said}."]


def _error(point: ValuePoint) -> str:
    # All candidates in any order are the same model: only rounding is left.
    if point.standard_error is None or point.standard_error <= 1e-12:
        return ""
    return f" ± {point.standard_error:.1g}"


def _with_error(point: ValuePoint) -> str:
    return _signed(point.loss_change or 0.0) + _error(point)


def _signed(value: float) -> str:
    sign = "−" if value < 0 else "+"
    return f"{sign}{abs(value):.3g}"


_ORDERS = {
    "training": {
        "score": "lowest score first",
        "training loss": "largest training loss first",
        "random": "in random order",
    },
    "candidates": {
        "score": "highest score first",
        "training loss": "smallest loss of the model first",
        "random": "in random order",
    },
}
_SHAPES = ("circle", "square", "triangle-up")


def value_chart(document: ValueDocument, *, width: int = 560, height: int = 300) -> alt.LayerChart:
    """Draw how the test loss changes as records are dropped, or candidates added, in three orders.

    A line below the others means that this order finds the records that matter. The scores have not
    seen the test records that judge them here. Bars are two standard errors.

    Parameters
    ----------
    document : ValueDocument
        With a curve.
    width, height : int
        Of the plot in pixels.

    Returns
    -------
    altair.LayerChart
        A Vega-Lite chart; it shows itself in a notebook.

    Raises
    ------
    InputError
        If the document has no curve.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, ValueDocument, ValuePoint
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> points = [ValuePoint(order="score", share=share, n_records=5, loss_change=-share)
    ...           for share in (0.1, 0.2)]
    >>> chart = value_chart(ValueDocument(provenance=Provenance(method="exact"), baseline=start,
    ...     scored="training", n=75, mean=0.0, harmful=3, total=0.0, curve=points))
    >>> chart.to_dict()["title"]["text"]
    'The test loss without the worst records'
    """
    import altair as alt

    names = _ORDERS[document.scored]
    rows: list[dict[str, Any]] = []
    for point in document.curve:
        if point.loss_change is None or point.share is None:
            continue
        reach = 2 * (point.standard_error or 0.0)
        rows.append(
            {
                "order": names[point.order],
                "dash": str(list(names).index(point.order)),
                "percent": 100 * point.share,
                "records": point.n_records,
                "change": point.loss_change,
                "low": point.loss_change - reach if reach else None,
                "high": point.loss_change + reach if reach else None,
            }
        )
    if not rows:
        raise InputError(f"the document has no curve to draw. Leave out {setting('curve', False)}.")
    drawn = [name for name in names.values() if any(row["order"] == name for row in rows)]
    goes = document.scored == "training"
    x = alt.X(
        "percent:Q",
        scale=alt.Scale(type="log" if goes else "linear", nice=False, zero=False, padding=12),
        axis=alt.Axis(
            title="training records dropped (%)" if goes else "candidates added (%)",
            values=sorted({row["percent"] for row in rows}),
            format="~g",
            grid=False,
        ),
    )
    title = f"change of test loss ({loss_unit(document)})"
    y = alt.Y("change:Q", axis=value_axis(alt, title))

    def scale(values: tuple[Any, ...]) -> Any:
        return alt.Scale(domain=drawn, range=list(values[: len(drawn)]))

    stroke = alt.Stroke("order:N", scale=scale(SHADES))
    # A field of its own without a legend: dashed symbols look torn.
    numbers = [str(number) for number in range(len(names))]
    dashes = [list(dash) for dash in DASHES[: len(names)]]
    dash = alt.StrokeDash("dash:N", scale=alt.Scale(domain=numbers, range=dashes), legend=None)
    shape = alt.Shape("order:N", scale=scale(_SHAPES))
    base = alt.Chart(alt.InlineData(values=rows))
    zero = alt.Chart(alt.InlineData(values=[{"zero": 0}])).mark_rule(color="#9a9fa8")
    tooltip = [
        alt.Tooltip("order:N", title="order"),
        alt.Tooltip("records:Q", title="records", format=","),
        alt.Tooltip("change:Q", title="change", format="+.4~g"),
    ]
    said = (
        "Measured by training again; one half of the test set scores, the other judges; bars are two "
        "standard errors."
    )
    layers = alt.layer(
        zero.encode(y="zero:Q"),
        base.transform_filter("isValid(datum.low)")
        .mark_rule(opacity=0.6)
        .encode(x=x, y=alt.Y("low:Q"), y2="high:Q", stroke=stroke),
        base.mark_line(size=2.2).encode(x=x, y=y, stroke=stroke, strokeDash=dash),
        base.mark_point(size=45, filled=False, opacity=1).encode(
            x=x, y=y, stroke=stroke, shape=shape, tooltip=tooltip
        ),
    )
    chart: alt.LayerChart = dressed(
        layers.properties(
            width=width,
            height=height,
            title=alt.TitleParams(
                text="The test loss without the worst records"
                if goes
                else "The test loss with the best candidates",
                subtitle=subtitle([said], width),
            ),
            description=f"Change of the test loss in {len(drawn)} orders of records.",
        ),
        title_offset=14,
        legend=legend_layout(drawn, width),
    )
    return chart
