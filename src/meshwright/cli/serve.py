"""The command that serves the page."""

from __future__ import annotations

from typing import Annotated

import typer

PORT = 8642


def serve(
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="address to listen on; 127.0.0.1 is this machine only")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(min=1, max=65535, metavar="NUMBER", help="port to listen on")] = PORT,
    searches: Annotated[
        int | None, typer.Option(min=1, metavar="COUNT", help="searches at the same time; default: one per core")
    ] = None,
    time_limit: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="longest time for one search")] = 60.0,
) -> None:
    """Serve the planner as a web page; by default only this machine can reach it."""
    from meshwright.search.executors import cores
    from meshwright.web.searches import Bounds
    from meshwright.web.serve import serve as start

    start(host, port, Bounds(at_once=searches or cores(), seconds=time_limit))
