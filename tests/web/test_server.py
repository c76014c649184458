"""The page over HTTP: what it answers, to whom, within which bounds, and that a reader who leaves ends the search."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import signal
import socket
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from served import LARGE, LLAMA_70B, MIDDLE, PATIENCE_S, SMALL, TINY, UNFIT, Served, link, server, until

import meshwright
from meshwright.web.serve import Brief

pytestmark = [
    pytest.mark.slow,
    pytest.mark.clients("fastapi", "uvicorn"),
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]
CONFIG = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}


@pytest.fixture(scope="module")
def page() -> Iterator[Served]:
    with server("--searches", "2") as served:
        yield served


def test_the_answer_is_that_of_the_command_with_all_pictures(page: Served) -> None:
    status, text = page.get(link(LLAMA_70B))
    best = meshwright.plan("llama-3.1-70b", "8x8:h100", meshwright.Job(sequence_length=8192, global_batch=256)).best[0]
    assert status == 200
    assert f"<strong>{best.plan}</strong>" in text
    assert re.findall(r'<h2 id="part[^>]*>([^<]*)', text) == [
        *("The plan", "Memory", "Time", "Pipeline", "Time against memory", "Assumptions")
    ]
    assert text.count("<svg") == 4
    assert text.count('tabindex="0" role="img"') + text.count('role="img" class="mark"') > 20
    assert "<script" not in text
    assert " style=" not in text
    assert text.endswith("</html>")


def test_the_answer_streams_in_with_progress(page: Served) -> None:
    with page.open(link(MIDDLE)) as answer:
        parts = [answer.read1(65536).decode()]
        while part := answer.read1(65536).decode():
            parts.append(part)
    whole = "".join(parts)
    assert len(parts) > 3
    assert "<form" in parts[0]
    assert "<article>" not in parts[0]
    told = [int(done.replace(",", "")) for done in re.findall(r"([\d,]+) of [\d,]+ plans considered", whole)]
    assert len(told) > 1
    assert whole.index("plans considered") < whole.index("<article>")


def test_a_form_becomes_a_link_that_holds_it(page: Served) -> None:
    typed = SMALL | {"config": json.dumps(CONFIG, indent=2), "seq_len": "1024", "model": ""}
    status, _, target = page.post(typed)
    assert status == 303
    assert target.endswith("#answer")
    status, text = page.get(target.partition("#")[0])
    assert status == 200
    assert "<h1>gpt2 on " in text
    assert "&#34;n_embd&#34;:768" in text


def test_a_changed_question_stands_beside_the_one_before(page: Served) -> None:
    _, text = page.get(link(SMALL))
    (before,) = re.findall(r'name="before" value="([^"]*)"', text)
    _, _, location = page.post(SMALL | {"seq_len": "16k", "before": before.replace("&amp;", "&")})
    target = urlsplit(location)
    assert dict(parse_qsl(target.query))["was_seq_len"] == "8192"
    _, text = page.get(f"{target.path}?{target.query}")
    assert "What changed" in text
    assert re.search(r"step time</th><td[^>]*>[\d.]+ s</td><td[^>]*>[\d.]+ s</td><td[^>]*>\+\d+", text)


def test_what_does_not_fit_says_what_would_as_links(page: Served) -> None:
    status, text = page.get(link(UNFIT))
    assert status == 200
    assert "No plan fits" in text
    (ways,) = re.findall(r'<nav aria-label="What would fit">(.*?)</nav>', text, re.DOTALL)
    target = re.findall(r'href="([^"#]*)#answer"', ways)[-1].replace("&amp;", "&")
    assert ">The plan</h2>" in page.get(target)[1]
    assert "/download/memo.html" in text
    assert "/download/plan.json" not in text


def test_a_wrong_question_comes_back_with_all_its_faults(page: Served) -> None:
    status, text = page.get(link(SMALL | {"model": "lama", "tp": "x", "seq_len": "<b>"}))
    assert status == 200
    for name in ("model", "tp", "seq_len"):
        assert f'id="fault-{name}"' in text
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert "<article>" not in text


def test_a_plan_that_the_runtime_refuses_is_told(page: Served) -> None:
    _, text = page.get(link(SMALL | {"tp": "3"}))
    assert "This question has no answer" in text
    assert "tp" in text


@pytest.mark.parametrize("kind", ["memo.html", "memo.pdf", "plan.json", "launch.zip"])
def test_what_can_be_taken_away(page: Served, kind: str) -> None:
    if kind == "memo.pdf":
        pytest.importorskip("typst")
    with page.open(f"/download/{kind}?{urlencode(SMALL)}") as answer:
        content = answer.read()
    assert answer.status == 200
    assert answer.headers["Content-Disposition"].startswith("attachment; filename=")
    if kind == "memo.html":
        assert b"<h1>How to train llama-3.1-8b" in content
    elif kind == "memo.pdf":
        assert content.startswith(b"%PDF")
    elif kind == "plan.json":
        assert json.loads(content)["inputs"]["model"]["name"] == "llama-3.1-8b"
    else:
        names = zipfile.ZipFile(io.BytesIO(content)).namelist()
        assert any(name.endswith(".sh") for name in names)


def test_too_much_is_refused_before_it_is_read(page: Served) -> None:
    status, text, _ = page.post(SMALL | {"config": "x" * 80_000})
    assert status == 413
    assert "at most 65,536" in text
    assert page.post("a" * 300_000)[0] == 413


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/static/app.py",
            "/static/../app.py",
            "/static/%2e%2e/app.py",
            "/static/..%2fapp.py",
            "/templates/top.html.j2",
        ),
        *("/etc/passwd", "/static//etc/passwd", "/docs", "/openapi.json", "/download/../plan", "/static/"),
    ],
)
def test_nothing_else_of_the_disk_is_served(page: Served, path: str) -> None:
    assert page.get(path)[0] in (404, 422)


def test_headers_are_strict_on_everything(page: Served) -> None:
    for path in ("/", link(SMALL), "/static/page.css", "/nothing"):
        with page.open(path) as answer:
            headers = answer.headers
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; style-src 'self';")
        assert "unsafe" not in policy
        assert "script-src" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"


def test_other_names_and_other_sites_are_refused(page: Served) -> None:
    assert page.get("/", Host="evil.example")[0] == 403
    assert page.get("/", Host=f"localhost:{page.port}")[0] == 200
    assert page.get(link(SMALL), Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="image")[0] == 403
    assert page.get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="document")[0] == 200


def test_a_form_that_breaks_off_or_is_no_http_leaves_no_traceback(tmp_path: Path) -> None:
    with (tmp_path / "errors").open("wb") as errors, server(errors=errors) as served:
        for head in ("Content-Length: 9\r\n\r\nmodel", "Transfer-Encoding: chunked\r\n\r\nzz\r\n"):
            with socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) as client:
                client.sendall(f"POST /ask HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}".encode())
                client.shutdown(socket.SHUT_WR)
                assert client.recv(1024)[9:12] in (b"", b"400")
        assert served.get("/")[0] == 200
    assert "Traceback" not in (tmp_path / "errors").read_text("utf-8")


def test_an_error_nobody_foresaw_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("of a page")
    log.addFilter(Brief())
    try:
        raise RuntimeError("no such \x1b[31mpart")
    except RuntimeError:
        log.exception("Exception in ASGI application\n")
    (record,) = caplog.records
    what = r"RuntimeError in test_server.py, line \d+: no such \\x1b\[31mpart\. "
    assert re.fullmatch(rf"a request was not answered: {what}Please report.*", record.getMessage())
    assert "Traceback" not in caplog.text


def test_a_closed_page_ends_its_search(page: Served) -> None:
    """Its process is stopped, so that it could not end by itself."""
    answer = page.open(link(LARGE))
    until(page.searches, "a search runs")
    (search,) = page.searches()
    os.kill(search, signal.SIGSTOP)
    answer.close()
    until(lambda: not page.searches(), "the search has ended")


def test_more_than_so_many_wait_and_are_told(page: Served) -> None:
    answers = [page.open(link(LARGE)) for _ in range(2)]
    until(lambda: len(page.searches()) == 2, "two searches run")
    for search in page.searches():
        os.kill(search, signal.SIGSTOP)
    with page.open(link(SMALL)) as third:
        seen = ""
        while "search ends first" not in seen:
            seen += third.read1(65536).decode()
        assert len(page.searches()) == 2
        answers[0].close()
        assert "<article>" in third.read().decode()
    answers[1].close()
    until(lambda: not page.searches(), "the searches have ended")


def test_twenty_pages_at_once_all_have_their_answer(page: Served) -> None:
    batches = [str(64 * (1 + index)) for index in range(20)]
    with ThreadPoolExecutor(20) as readers:
        answers = list(readers.map(lambda batch: page.get(link(TINY | {"global_batch": batch})), batches))
    assert [status for status, _ in answers] == [200] * 20
    assert all('<h2 id="part-1">The plan</h2>' in text for _, text in answers)


def test_a_search_is_stopped_in_time() -> None:
    with server("--searches", "1", "--time-limit", "1") as served:
        with served.open(link(LARGE)) as answer:
            until(served.searches, "a search runs")
            (search,) = served.searches()
            os.kill(search, signal.SIGSTOP)
            assert "the search was stopped after 1 s" in answer.read().decode()
        until(lambda: not served.searches(), "the search has ended")
