"""Faults of the machine and files that nobody means: one clear error, nothing half written, memory bounded."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from commands import HANG_S, LLAMA, asked, question, refused

pytestmark = pytest.mark.slow

PLAN = ("explain", *LLAMA, "--tp", "4")
FEW = ("--model", "gpt2", "--cluster", "1x1:h100", "--seq-len", "1024", "--global-batch", "2")
MOST_MEMORY = 1024 * 2**20
"""Address space of a question with a hostile file, bytes: numpy and the planner take a third of it."""
PR_CAPBSET_DROP, CAPABILITIES = 24, (1, 2)
"""With which root writes where it may not (capabilities(7): DAC_OVERRIDE, DAC_READ_SEARCH)."""
SMALL = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 256,
    "max_position_embeddings": 64,
}


def ran(
    arguments: Sequence[str],
    *,
    memory: int | None = None,
    stdin: int = subprocess.DEVNULL,
    environment: dict[str, str] | None = None,
    folder: Path | None = None,
    rights: bool = True,
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with so much address space at most; rights: those of root, if this is it."""

    def limit() -> None:
        for capability in () if rights else CAPABILITIES:
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    return subprocess.run(
        [sys.executable, "-c", "from meshwright.__main__ import run; run()", *arguments],
        stdin=stdin,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=HANG_S,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **(environment or {})},
        cwd=folder,
        preexec_fn=limit if memory or not rights else None,
    )


def all_ran(asks: Sequence[Callable[[], subprocess.CompletedProcess[str]]]) -> list[subprocess.CompletedProcess[str]]:
    """Several commands, two at a time."""
    with ThreadPoolExecutor(2) as threads:
        return [*threads.map(lambda ask: ask(), asks)]


def clear(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """A refusal is one message, which names what it is about, and no traceback."""
    assert done.returncode == 2, done.stderr[-600:]
    assert done.stderr.startswith("meshwright: ")
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 3000
    assert all(word in done.stderr for word in words), done.stderr


def test_large_and_deep_files_are_refused_in_little_memory(tmp_path: Path) -> None:
    """100 MB of JSON, JSON nested 10^5 deep, TOML likewise, a file without an end, and a million rows."""
    (tmp_path / "large.json").write_bytes(b'{"a": "' + b"x" * 100_000_000 + b'"}')
    (tmp_path / "deep.json").write_bytes(b'{"model_type":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    (tmp_path / "deep.toml").write_bytes(b"a = " + b"[" * 100_000 + b"]" * 100_000)
    rows = "model,cluster,seq_len,step_time_s\n" + "llama-3.1-8b,1x8:h100,4096,1e-320\n" * 1_000_000
    (tmp_path / "rows.csv").write_text(rows, "utf-8")
    cases = [
        (("model", "large.json"), "larger than"),
        (("model", "deep.json"), "deep.json"),
        (("plan", *question(cluster="deep.toml")), "deep.toml"),
        (("sweep", "deep.toml", "--out", "o"), "deep.toml"),
        (("check", "--from", "deep.json", "--cluster", "1x8:h100"), "deep.json"),
        (("model", "/dev/zero"), "larger than"),
        (("validate", "--runs", "rows.csv"), "more than 100,000 rows"),
    ]
    asks = [lambda words=words: ran(words, memory=MOST_MEMORY, folder=tmp_path) for words, _ in cases]
    for done, (_, word) in zip(all_ran(asks), cases, strict=True):
        clear(done, word)
    assert not (tmp_path / "o").exists()


def test_huge_questions_are_answered_in_two_gigabytes(tmp_path: Path) -> None:
    """A million accelerators, sequences of ten million tokens, a thousand layers; no plan fits the second on eight."""
    sizes = {"hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672}
    (tmp_path / "deep.json").write_text(json.dumps(SMALL | sizes | {"num_hidden_layers": 1000}), "utf-8")
    cases = {
        ("llama-3.1-405b", "125000x8:h100", "8192", "1000000"): 0,
        ("llama-3.1-8b", "128x8:h100", "10000000", "8"): 0,
        ("llama-3.1-8b", "1x8:h100", "10000000", "8"): 3,
        ("deep.json", "512x8:h100", "8192", "2048"): 0,
    }
    names = ("--model", "--cluster", "--seq-len", "--global-batch")

    def ask(values: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        words = [word for pair in zip(names, values, strict=True) for word in pair]
        return ran(("plan", *words), memory=2 * 2**30, folder=tmp_path)

    for done, code in zip(
        all_ran([lambda values=values: ask(values) for values in cases]), cases.values(), strict=True
    ):
        assert done.returncode == code, done.stderr[-500:]
        assert "Traceback" not in done.stderr


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for words in (
        ("model", str(folder)),
        ("explain", str(folder)),
        ("plan", *question(cluster=f"{folder}/")),
        ("check", "--from", str(folder), "--cluster", "1x8:h100"),
        ("validate", "--runs", str(folder)),
        ("plan", *question(), "--measured", str(folder)),
        ("sweep", str(folder), "--out", str(tmp_path / "o")),
        ("runs", str(folder)),
        ("textbook", "analyze", str(folder)),
        ("memo", *question(), "--out", str(folder)),
        (*PLAN, "--trace", str(folder)),
    ):
        refused(asked(*words))
    assert [*tmp_path.iterdir()] == [folder]


def test_a_file_may_be_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "config.json"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(json.dumps(SMALL), "utf-8"))
    writer.start()
    assert asked("model", str(pipe), "--json").document["family"] == "llama"
    writer.join()
    plan = asked(*PLAN, "--json").out.encode()
    reading, writing = os.pipe()

    def feed() -> None:
        with os.fdopen(writing, "wb") as end:
            end.write(plan)

    feeder = threading.Thread(target=feed)
    feeder.start()
    done = ran(("check", "-"), stdin=reading)
    os.close(reading)
    feeder.join()
    assert done.returncode == 0, done.stderr


def test_places_without_home_unicode_or_width_get_their_answer(tmp_path: Path) -> None:
    """No HOME, LANG=C with ASCII alone, 20 columns; Markdown, JSON, help and errors too."""
    ascii_only = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "HOME": "/nonexistent"}
    narrow = {"COLUMNS": "20", "HOME": ""}
    asks = [
        lambda: ran(PLAN, environment=ascii_only, folder=tmp_path),
        lambda: ran(("memo", *FEW), environment=ascii_only, folder=tmp_path),
        lambda: ran(("memo", *FEW, "--out", "m.md"), environment=ascii_only, folder=tmp_path),
        lambda: ran(PLAN, environment=narrow),
        lambda: ran(("--help",), environment=narrow),
        lambda: ran(("model", "läma"), environment=ascii_only),
    ]
    *answers, wrong = all_ran(asks)
    for done in answers:
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout or "m.md" in done.args
    assert answers[1].stdout.isascii()
    assert "gpt2" in (tmp_path / "m.md").read_text("utf-8")
    clear(wrong, "unknown model")


def test_a_closed_pipe_and_a_full_disk_end_without_a_traceback() -> None:
    """Whoever closed the pipe reads no message either."""
    read, write = os.pipe()
    os.close(read)
    with Path("/dev/full").open("w") as full:
        for closed, words in ((write, ""), (full.fileno(), "cannot write the answer: No space left on device")):
            command = [sys.executable, "-c", "from meshwright.__main__ import run; run()", "catalog", "models"]
            done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, timeout=HANG_S)
            assert done.returncode == 1
            assert words in done.stderr
            assert "Traceback" not in done.stderr
    os.close(write)


def test_too_little_memory_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("meshwright.search.find.check", full)
    assert "more memory than there is here" in refused(asked("plan", *LLAMA), code=1)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Nor does anything need to write to the folder that it is asked in."""
    tmp_path.chmod(0o555)
    outs = (
        ("memo", *FEW, "--out", "memo.md"),
        ("memo", *FEW, "--out", "memo.html"),
        (*PLAN, "--trace", "t.json"),
        ("launch", *PLAN[1:], "--out", "made"),
        ("validate", "--where", "dataset == 'none'", "--rows", "o.csv"),
        ("validate", "--where", "dataset == 'none'", "--plot", "o.svg"),
        PLAN,
    )
    *answers, asked_only = all_ran([lambda words=words: ran(words, folder=tmp_path, rights=False) for words in outs])
    for done in answers:
        assert done.returncode == 2, done.stderr
        assert "not writable" in done.stderr or "Permission denied" in done.stderr
        assert "Traceback" not in done.stderr
    assert asked_only.returncode == 0
    assert not [*tmp_path.iterdir()]


def test_two_processes_that_write_one_file_leave_one_whole(tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    asks = [lambda tp=tp: ran(("explain", *LLAMA, "--tp", tp, "--trace", str(out))) for tp in ("2", "4")]
    assert all(done.returncode == 0 for done in all_ran(asks))
    assert json.loads(out.read_text("utf-8"))["traceEvents"]
    assert [*tmp_path.iterdir()] == [out]
