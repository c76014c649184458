"""App: the routes of the page, on FastAPI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse

from meshwright.errors import InvalidInput
from meshwright.web.guard import Guard
from meshwright.web.packing import MOST_CHARACTERS
from meshwright.web.pages import STATIC, Page, progress, static
from meshwright.web.question import Question
from meshwright.web.reading import read
from meshwright.web.searches import Bounds, Searches, prepare
from meshwright.web.task import Answered, Event, FileKind, Kind, Refused, Task

MOST_BODY = 4 * MOST_CHARACTERS
"""Bytes of a form: characters may take several."""
MOST_FIELDS = 100
REPEAT_TICKS = 25
"""After so many ticks a page is told again how far its search is."""
TYPES = {
    "html": "text/html; charset=utf-8",
    "pdf": "application/pdf",
    "json": "application/json",
    "zip": "application/zip",
}
BUSY = "too many searches are waiting; ask again in a minute"


def app_of(bounds: Bounds, hosts: frozenset[str] | None) -> FastAPI:
    """The page with its searches. hosts: names under which it may be asked; None: any."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(prepare)
        yield

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.searches = Searches(bounds=bounds)
    app.add_middleware(Guard, hosts=hosts)
    app.add_api_route("/", _start, methods=["GET"], response_model=None)
    app.add_api_route("/ask", _ask, methods=["POST"], response_model=None)
    app.add_api_route("/plan", _plan, methods=["GET"], response_model=None)
    app.add_api_route("/download/{kind}", _download, methods=["GET"], response_model=None)
    app.add_api_route("/static/{name}", _static, methods=["GET"], response_model=None)
    return app


async def _start() -> Response:
    return _whole(Page())


async def _static(name: str) -> Response:
    if name not in STATIC:
        return Response(status_code=404)
    return Response(static(name), media_type=STATIC[name], headers={"Cache-Control": "max-age=300"})


async def _ask(request: Request) -> Response:
    """The question of a form becomes a link, which holds it and has its answer."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            return _whole(Page(faults={"": f"More than {MOST_BODY:,} bytes are sent; paste less."}), 413)
    try:
        pairs = dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=MOST_FIELDS))
        question = Question.of(pairs)
        before, _ = Question.of_link(dict(parse_qsl(pairs.get("before", ""), max_num_fields=MOST_FIELDS)))
        link = question.link(before if before.values else None)
    except InvalidInput as error:
        return _whole(Page(question=question.replace(config=""), faults={"config": str(error)}), 413)
    except ValueError:
        return _whole(Page(faults={"": "The form cannot be read; ask from this page."}), 422)
    return RedirectResponse(f"/plan?{link}#answer", 303)


async def _plan(request: Request) -> Response:
    page, task = await _asked(request, "page")
    if task is None:
        return _whole(page)
    searches = request.app.state.searches
    if searches.full:
        return _whole(Page(question=page.question, faults={"": BUSY}), 503)
    return StreamingResponse(_streamed(request, page, searches.events(task)), media_type="text/html; charset=utf-8")


async def _streamed(request: Request, page: Page, events: AsyncGenerator[Event, None]) -> AsyncIterator[str]:
    """The page as it comes to be; a reader who leaves ends the search."""
    yield page.top(answering=True)
    last, ticks = None, 0
    async with aclosing(events):
        async for event in events:
            if await request.is_disconnected():
                return
            if isinstance(event, Answered):
                yield page.answer(event.content.decode(), event.fits)
            elif isinstance(event, Refused):
                yield page.refusal(event.words)
            elif event != last or ticks % REPEAT_TICKS == 0:
                yield progress(event)
            last, ticks = event, ticks + 1
    yield page.bottom()


async def _download(request: Request, kind: FileKind) -> Response:
    page, task = await _asked(request, kind)
    if task is None:
        return _whole(page, 422)
    searches = request.app.state.searches
    if searches.full:
        return _whole(Page(question=page.question, faults={"": BUSY}), 503)
    async with aclosing(searches.events(task)) as events:
        async for event in events:
            if await request.is_disconnected():
                return Response(status_code=499)
            if isinstance(event, Refused):
                return _whole(Page(question=page.question, faults={"": event.words}), 422)
            if isinstance(event, Answered):
                name = f"{task.inputs.model.name}-{task.inputs.cluster.name}-{kind}"
                return _file(event.content, "".join(each if each.isalnum() or each in "-._" else "-" for each in name))
    return Response(status_code=500)


def _file(content: bytes, name: str) -> Response:
    ascii_name = name.encode("ascii", "replace").decode().replace("?", "-")
    headers = {"Content-Disposition": f'attachment; filename="{ascii_name}"'}
    return Response(content, media_type=TYPES[name.rpartition(".")[2]], headers=headers)


async def _asked(request: Request, kind: Kind) -> tuple[Page, Task | None]:
    """The page of a link, and its task where the question is a right one."""
    try:
        question, before = Question.of_link(dict(request.query_params))
    except InvalidInput as error:
        return Page(faults={"": str(error)}), None
    asked = await asyncio.to_thread(read, question)
    if asked.inputs is None:
        return Page(question=question, faults=asked.faults), None
    inputs_before = (await asyncio.to_thread(read, before)).inputs if before else None
    page = Page(question=question, before=before, inputs=asked.inputs)
    task = Task(kind=kind, question=question, inputs=asked.inputs, question_before=before, before=inputs_before)
    return page, task


def _whole(page: Page, status: int = 200) -> Response:
    return HTMLResponse(page.top(answering=False) + page.bottom(), status)
