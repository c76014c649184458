"""Serve: the page on a port of this machine."""

from __future__ import annotations

import ipaddress

from meshwright.errors import InvalidInput
from meshwright.web.searches import Bounds

MISSING = "the page needs FastAPI and uvicorn: pip install 'meshwright[web]'"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
MOST_LINK = 64 * 1024
"""Bytes of a link, with what it carries."""


def serve(host: str, port: int, bounds: Bounds) -> None:
    """Answer until interrupted.

    host: loopback, or an address of this machine; port: a number. Raises `InvalidInput` without FastAPI.
    """
    try:
        import uvicorn

        from meshwright.web.app import app_of
    except ImportError:
        raise InvalidInput(MISSING) from None
    app = app_of(bounds, LOOPBACK if is_loopback(host) else None)
    print(f"Meshwright answers at {address(host, port)} (Ctrl-C ends it)", flush=True)
    uvicorn.run(
        app,
        host=host,
        port=port,
        log_level="warning",
        server_header=False,
        h11_max_incomplete_event_size=MOST_LINK,
        http="h11",
        timeout_graceful_shutdown=1,
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def address(host: str, port: int) -> str:
    """Where a browser finds it.

    >>> address("::1", 8642)
    'http://[::1]:8642/'
    """
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
