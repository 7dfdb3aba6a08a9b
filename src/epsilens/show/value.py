# SPDX-License-Identifier: Apache-2.0
"""What records are worth: table, sentences and chart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epsilens.document import ValueDocument
from epsilens.document.wording import loss_unit
from epsilens.errors import InputError, setting
from epsilens.show.look import DASHES, SHADES, dressed, legend_layout, subtitle, value_axis

if TYPE_CHECKING:
    import altair as alt


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
        Size of the plot in pixels.

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
    >>> from epsilens.document import ValuePoint, example_document
    >>> points = [ValuePoint(order="score", share=share, n_records=5, loss_change=-share)
    ...           for share in (0.1, 0.2)]
    >>> chart = value_chart(example_document("value", curve=points))
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
