"""Serve: the page on a port of this machine."""

from __future__ import annotations

import ipaddress
import logging

from meshwright.answers.document.inline import visible
from meshwright.errors import InvalidInput, unforeseen
from meshwright.web.searches import Bounds

MISSING = "the page needs FastAPI and uvicorn: pip install 'meshwright[web]'"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
MOST_LINK = 64 * 1024
"""Bytes of a link, with what it carries."""


class Brief(logging.Filter):
    """An error that a request ended with, in a line for who serves, without its traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record; of an error what, where and why."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            what = f"a request was not answered: {unforeseen(error)}"
            record.msg = visible(f"{what}. Please report it if the page itself sent that request.")
            record.args, record.exc_info, record.exc_text = (), None, None
        return True


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
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(Brief())
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
