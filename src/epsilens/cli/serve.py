# SPDX-License-Identifier: Apache-2.0
"""`epsilens serve`: the page, on this machine only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from epsilens.cli.option_groups import option, switch
from epsilens.cli.output import Anonymous, Quiet

if TYPE_CHECKING:
    from pathlib import Path


def serve(
    data: Annotated[
        str | None,
        typer.Argument(metavar="[DATA]", help="A table to begin with; others can be uploaded."),
    ] = None,
    port: Annotated[int, option("0: one that is free.", "N", min=0, max=65535)] = 0,
    state: Annotated[str | None, option("Where tables and studies are kept.", "DIR")] = None,
    max_upload: Annotated[
        int, option("The largest file to upload.", "MB", min=1, max=100_000)
    ] = 200,
    browser: Annotated[bool, switch("--browser/--no-browser", "Whether to open the page.")] = True,
    model: Annotated[
        str | None,
        option(
            "A model of your own that can be chosen on the page: a scikit-learn estimator, or what makes one.",
            "MODULE:NAME",
        ),
    ] = None,
    quiet: Quiet = False,
    anonymous: Anonymous = False,
) -> None:
    """Open the page: choose a table, move ε, leave with a decision.

    The server answers on 127.0.0.1 only, to browsers that opened the link. The link works until the
    server ends, as often as you like. On another machine:
    forward its port by ssh -L and open the link there. Ctrl-C ends it.

    Example: [bold]epsilens serve survey.csv[/bold]
    """
    import os
    import sys
    import warnings
    from contextlib import suppress

    from epsilens.app.server import run
    from epsilens.cli.ending import others_handle_signals

    if model is not None:
        # Refused now, not at the first question.
        from epsilens.audit.own_code import load_model
        from epsilens.influence.any_model import check_any_estimator

        check_any_estimator(load_model(model))

    def announce(address: str, folder: Path) -> None:
        typer.echo(f"Open: {address}")
        if not quiet:
            typer.echo(f"Tables and studies are kept in {folder}; delete them on the page.")
            typer.echo("Ctrl-C ends the server; nothing finished is lost.")

    def browse(address: str) -> None:
        import threading
        import webbrowser

        # A browser in the terminal would hold up the server that it waits for.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    # Over SSH no window can be opened.
    has_screen = sys.platform in {"darwin", "win32"} or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    others_handle_signals()
    # Ctrl-C is how one ends it; by then everything is in order.
    with warnings.catch_warnings(), suppress(KeyboardInterrupt):
        warnings.simplefilter("ignore")
        run(
            data,
            port=port,
            state=state,
            anonymous=anonymous,
            max_upload=max_upload * 2**20,
            announce=announce,
            browse=browse if browser and has_screen else None,
            own_model=model,
        )
    if not quiet:
        typer.echo("Stopped.")
