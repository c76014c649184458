"""Work: one task in a process of its own, which can be ended at any time and holds only so much memory."""

from __future__ import annotations

import io
import json
import sys
import time
import zipfile
from collections.abc import Callable
from multiprocessing.connection import Connection

from meshwright.answers.document.html import html
from meshwright.answers.document.pdf import pdf
from meshwright.answers.launch.files import framework_of, launch_files
from meshwright.answers.plans.beyond import Beyond
from meshwright.answers.plans.table import plan_document
from meshwright.answers.public.memo import LOOKED_AT, memo_of
from meshwright.answers.unfit.nothing_fits import nothing_fits
from meshwright.answers.unfit.ways_to_fit import ways_to_fit
from meshwright.errors import MeshwrightError
from meshwright.search.executors import prepare_worker
from meshwright.search.find import Progress, SearchResult, find
from meshwright.search.many_searches.pareto import pareto
from meshwright.web.page_answer import page_answer
from meshwright.web.task import Answered, Event, FileKind, Refused, Task, Working

MOST_MEMORY = 4 * 2**30
"""Bytes of address space of one search; the largest question of the tests takes a third."""
EVERY_S = 0.1
"""From one word on the progress to the next."""


def work(task: Task, events: Connection) -> None:
    """Answer a task: send how far it is, then its answer or why there is none."""
    prepare_worker()
    _limit_memory()
    events.send(_done(task, _reporting(events)))


def _done(task: Task, progress: Progress) -> Event:
    try:
        return page_answer(task, progress) if task.kind == "page" else Answered(FILES[task.kind](task, progress))
    except MeshwrightError as error:
        return Refused(str(error))
    except MemoryError:
        return Refused(f"the search needs more than the {MOST_MEMORY // 2**30} GiB that one may take: ask for less")


def _reporting(events: Connection) -> Progress:
    last = 0.0

    def report(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY_S:
            last = time.monotonic()
            events.send(Working(done, total))

    return report


def _limit_memory() -> None:
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def _memo_html(task: Task, progress: Progress) -> bytes:
    search = find(task.inputs, top=LOOKED_AT, progress=progress)
    return html(memo_of(search, price=task.question.price).page).encode()


def _memo_pdf(task: Task, progress: Progress) -> bytes:
    search = find(task.inputs, top=LOOKED_AT, progress=progress)
    return pdf(memo_of(search, price=task.question.price).page)


def _plan_file(task: Task, progress: Progress) -> bytes:
    result = _fitting(task, progress)
    document = plan_document(result, Beyond(front=pareto(result, progress), ways=ways_to_fit(result, progress)))
    return json.dumps(document, indent=2, allow_nan=False).encode()


def _launch(task: Task, progress: Progress) -> bytes:
    name = framework_of(task.inputs.runtime.id)
    best = _fitting(task, progress).best[0]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as folder:
        for file, text in launch_files(best.plan, task.inputs, name).files.items():
            entry = zipfile.ZipInfo(f"launch/{file}")
            entry.external_attr = (0o755 if file.endswith((".sh", ".slurm")) else 0o644) << 16
            folder.writestr(entry, text, zipfile.ZIP_DEFLATED)
    return archive.getvalue()


def _fitting(task: Task, progress: Progress) -> SearchResult:
    result = find(task.inputs, progress=progress)
    if not result.best:
        raise nothing_fits(result)
    return result


FILES: dict[FileKind, Callable[[Task, Progress], bytes]] = {
    "memo.html": _memo_html,
    "memo.pdf": _memo_pdf,
    "plan.json": _plan_file,
    "launch.zip": _launch,
}
"""By kind of task."""
