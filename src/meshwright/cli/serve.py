"""The command that serves the page."""

from __future__ import annotations

from typing import Annotated

import typer

PORT = 8642


def serve(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="to listen on; only this machine reaches 127.0.0.1")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=1, max=65535, metavar="NUMBER", help="of the address")] = PORT,
    searches: Annotated[
        int | None, typer.Option(min=1, metavar="COUNT", help="at once, others wait; default: one for each core")
    ] = None,
    time_limit: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="of one search")] = 60.0,
) -> None:
    """Serve a web page that answers questions, on this machine alone unless told otherwise."""
    from meshwright.search.executors import cores
    from meshwright.web.searches import Bounds
    from meshwright.web.serve import serve as start

    start(host, port, Bounds(at_once=searches or cores(), seconds=time_limit))
