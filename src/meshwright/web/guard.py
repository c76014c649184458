"""Guard: what every answer to a browser says of itself, and who may ask."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from h11 import LocalProtocolError
from starlette.requests import ClientDisconnect

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""No script at all, nothing from elsewhere, no frame around it."""


class Guard:
    """An ASGI application behind checks of who asks, with strict headers.

    hosts: names under which it may be asked, so that no other site can take the name of this machine; None: any.
    """

    def __init__(self, app: App, hosts: frozenset[str] | None) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        asked = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _headers(message["headers"])
            await send(message)

        with contextlib.suppress(ClientDisconnect, LocalProtocolError):  # gone, or going on with what is no HTTP
            if self._refused(asked):
                await headed({"type": "http.response.start", "status": 403, "headers": []})
                await headed({"type": "http.response.body", "body": b"This server does not answer to others.\n"})
            else:
                await self.app(scope, receive, headed)

    def _refused(self, asked: dict[str, str]) -> bool:
        """Asked under another name, or by another site for anything but a page of its own to read."""
        host = asked.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        foreign = asked.get("sec-fetch-site") in ("cross-site", "same-site")
        reads = asked.get("sec-fetch-dest", "document") == "document"
        return (self.hosts is not None and name not in self.hosts) or (foreign and not reads)


def _headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    present = {name.lower() for name, _ in headers}
    caching = [] if b"cache-control" in present else [(b"cache-control", b"no-store")]
    return [*headers, *caching, *((name.lower().encode(), value.encode()) for name, value in HEADERS.items())]
