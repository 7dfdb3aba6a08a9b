# SPDX-License-Identifier: Apache-2.0
"""Altair charts that show themselves without the network, and whose names are never taken for markup.

Altair writes the names of groups and columns into a script as they are, and loads the scripts that draw the
chart from another machine. A name could then run as a program.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO, Any

import altair as alt

from epsilens.show.inlining import chart_library, inline_json, inline_script, security_policy

_HTML_RENDERERS = ("default", "html", "colab", "kaggle", "zeppelin", "olli")
"""Altair's renderers that load scripts from elsewhere and write names into a script."""
# The menu of vega-embed would write names into a page, or send them to an editor elsewhere.
_DRAW = (
    'vegaEmbed("#chart", JSON.parse(document.getElementById("spec").textContent), '
    '{mode: "vega-lite", renderer: "svg", actions: false, ast: true});'
)
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>epsilens</title>
</head>
<body>
<div id="chart"></div>
<script type="application/json" id="spec">{spec}</script>
<script>{library}</script>
<script>{draw}</script>
</body>
</html>
"""


class _Offline(alt.TopLevelMixin):
    """What replaces Altair's own ways to HTML."""

    def to_html(self, **settings: object) -> str:  # type: ignore[override]
        """Return a page that needs nothing else; Altair's settings of its page have no effect."""
        library, draw = chart_library(), inline_script(_DRAW)
        policy = security_policy(library, draw)
        spec = inline_json(self.to_dict())
        return _PAGE.format(policy=policy, spec=spec, library=library, draw=draw)

    def save(  # type: ignore[override]
        self, fp: str | Path | IO[Any], format: str | None = None, **settings: Any
    ) -> None:
        """Write the chart as Altair does; HTML as `to_html` gives it."""
        path = Path(fp) if isinstance(fp, str | Path) else None
        kind = path.suffix.lstrip(".") if format is None and path is not None else format
        if kind != "html":
            super().save(fp, format=format, **settings)  # type: ignore[arg-type]
        elif path is not None:
            path.write_text(self.to_html(), encoding="utf-8")
        else:
            fp.write(self.to_html())  # type: ignore[union-attr]

    def _repr_mimebundle_(self, *args: Any, **settings: Any) -> Any:
        """Show itself in a notebook: as a picture, unless the reader has chosen a renderer."""
        if alt.renderers.active == "browser":
            from altair.utils._show import open_html_in_browser

            chosen = {name: alt.renderers.options.get(name) for name in ("using", "port")}
            open_html_in_browser(self.to_html(), using=chosen["using"], port=chosen["port"])
            return {}
        if alt.renderers.active not in _HTML_RENDERERS:
            return super()._repr_mimebundle_(*args, **settings)
        picture = io.StringIO()
        self.save(picture, format="svg")
        return {"image/svg+xml": picture.getvalue()}


class OfflineChart(_Offline, alt.Chart):
    """A chart of one plot."""


class OfflineLayerChart(_Offline, alt.LayerChart):
    """Plots one on the other."""


class OfflineVConcatChart(_Offline, alt.VConcatChart):
    """Plots one above the other."""


class OfflineHConcatChart(_Offline, alt.HConcatChart):
    """Plots side by side."""


_KINDS: dict[type, type] = {
    kind.__mro__[2]: kind
    for kind in (OfflineChart, OfflineLayerChart, OfflineVConcatChart, OfflineHConcatChart)
}


def offline(chart: Any) -> Any:
    """Return the same chart as one that shows itself without the network.

    Examples
    --------
    >>> chart = offline(alt.Chart(alt.InlineData(values=[{"x": "</script>"}])).mark_point())
    >>> isinstance(chart, alt.Chart), 'x":"</script>' in chart.to_html()
    (True, False)
    """
    made = chart.copy(deep=False)
    # Altair takes a plain assignment for one of its own settings.
    object.__setattr__(made, "__class__", _KINDS[type(chart)])
    return made


class Plot(alt.Chart):
    """A layer of a chart.

    Every step in which a chart is put together copies the marks, axes and rows of all its layers:
    hundreds of copies, in which most of the time of drawing went. A layer is never changed once it
    is drawn, so the copies share what it holds.
    """

    def __deepcopy__(self, memo: object) -> Plot:
        return self.copy(deep=False)


class SharedRows(alt.InlineData):
    """The rows of a plot; they are never changed, and all copies of the plot hold the same ones."""

    def __deepcopy__(self, memo: object) -> SharedRows:
        return self


def layer_of(rows: list[dict[str, Any]]) -> Any:
    """Return a layer without marks that shows these rows.

    Examples
    --------
    >>> chart = layer_of([{"x": 1}]).mark_point().encode(x="x:Q")
    >>> (chart + chart).layer[0].encoding is chart.encoding
    True
    """
    return Plot(SharedRows(values=rows))
