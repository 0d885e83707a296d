"""`palaver trace`: show, export, import and tail traces."""

import asyncio
import gzip
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from palaver.cli.main import cli
from palaver.cli.output import format_duration
from palaver.cli.trace import tail as trace_tail
from palaver.cli.trace.selection import build_query
from palaver.errors import InvalidBody, NotFound, TargetNotFound, TooLarge
from palaver.storage.database import Database, open_database
from palaver.storage.spans.queries import ALL_SPANS
from tests.server.traced_server import chat_span, span, span_id, trace_id
from tests.traces.otlp.otlp_requests import request

AGENT_TRACE_ID, CHAT_TRACE_ID = trace_id("t"), trace_id("uv")


def run(folder: Path, *arguments: str, stdin: bytes | None = None, code: int = 0) -> Result:
    """Run the command in this process; an error is raised, not printed."""
    argv = [*arguments, "--db", str(folder / "palaver.db")]
    result = CliRunner().invoke(cli, ["trace", *argv], standalone_mode=False, input=stdin)
    if result.exception is not None:
        raise result.exception
    assert (result.return_value or 0) == code, result.output
    return result


def spans() -> list[Span]:
    """Spans of two traces: an agent with a failed tool, and a single model call."""
    broken = span("broken", 3, seconds=0.25, parent="root", gen_ai__operation__name="execute_tool")
    broken.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message="no \x1b[31mmap"))
    return [
        span("root", 0, seconds=5, gen_ai__operation__name="invoke_agent", session__id="s-1"),
        chat_span("call", "Why is the sky blue?", "Because \\u001b[2J\u202e[red].", 1, parent="root"),
        broken,
        span("orphan", 4, parent="nobody"),
        chat_span("alone", "Hi", "Hello.", 5, trace="uv", http__route="/chat", gen_ai__workflow__name="tutor"),
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a database of these spans."""
    assert run(tmp_path, "import", "-", stdin=request(*spans())).output == "5 spans imported, 0 unchanged.\n"
    return tmp_path


def has_control_characters(text: str) -> bool:
    return re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text) is not None


# show


def test_a_trace_is_shown_as_a_tree_and_a_conversation(folder: Path) -> None:
    text_out = run(folder, "show", AGENT_TRACE_ID).output.splitlines()

    start = text_out[1]
    facts = r"ok  5\.0 s  4 spans  1 error  3 input tokens, 2 output tokens"
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC  {facts}", start)
    assert [text_out[0], *text_out[2:]] == [
        "root",
        f"trace {AGENT_TRACE_ID}",
        "session s-1",
        "",
        f"    5.0 s  {span_id('root')}  agent      root",
        f"    1.0 s  {span_id('call')}  llm          call  gpt-4o  3+2",
        f"   250 ms  {span_id('broken')}  tool         broken  error",
        f"    1.0 s  {span_id('orphan')}  unknown    orphan  (orphan)",
        "",
        "user",
        "  Why is the sky blue?",
        "tool",
        "  call broken(null)",
        "  error: null",
        "assistant",
        "  Because \ufffd[2J\\u202e[red].",
    ]
    tree = run(folder, "show", AGENT_TRACE_ID, "--tree").output.splitlines()
    assert tree == text_out[:9]
    assert run(folder, "show", AGENT_TRACE_ID, "--conversation").output.splitlines() == [*text_out[:4], *text_out[9:]]


def test_a_unique_prefix_of_a_trace_id_is_enough(folder: Path) -> None:
    assert run(folder, "show", f"{CHAT_TRACE_ID.upper()[:-2]}…").output.startswith("alone\n")
    with pytest.raises(NotFound, match="Trace '0000' is ambiguous"):
        run(folder, "show", "0000")
    for unknown in ("ffff", "%", "' OR 1=1", ""):
        with pytest.raises(NotFound, match="not found"):
            run(folder, "show", unknown)
    with pytest.raises(NotFound, match="in project 'team-a'"):
        run(folder, "show", AGENT_TRACE_ID, "--project", "team-a")


def test_a_span_is_shown_with_all_its_data(folder: Path) -> None:
    text_out = run(folder, "show", AGENT_TRACE_ID, "--span", span_id("call")[:-2] + "6C").output
    record = msgspec.json.decode(run(folder, "show", AGENT_TRACE_ID, "--span", span_id("call"), "--json").output)

    assert not has_control_characters(text_out)
    assert "input messages\nuser\n  Why is the sky blue?\n" in text_out
    assert "  gen_ai.request.model = gpt-4o\n" in text_out
    assert (record["span_id"], record["kind"], record["model"]) == (span_id("call"), "llm", "gpt-4o")
    failed = run(folder, "show", AGENT_TRACE_ID, "--span", span_id("broken")).output
    assert "status: error\nstatus_message: no \ufffd[31mmap\n" in failed
    tool_span = span(
        "told", 9, trace="told", gen_ai__operation__name="execute_tool", gen_ai__tool__call__result="4\\n5"
    )
    tool_span.events.append(Span.Event(name="seen", attributes=[]))
    tool_span.links.append(Span.Link(trace_id=bytes.fromhex(AGENT_TRACE_ID), span_id=bytes.fromhex(span_id("root"))))
    import_spans(folder, tool_span)
    more = run(folder, "show", trace_id("told"), "--span", span_id("told")).output
    assert more.endswith(f"event seen {{}}\nlink {AGENT_TRACE_ID} {span_id('root')} {{}}\n")
    for prefix, expected_error in (("ffff", "not found"), ("0000", "is ambiguous")):
        with pytest.raises(NotFound, match=expected_error):
            run(folder, "show", AGENT_TRACE_ID, "--span", prefix)


def test_a_trace_as_json_has_its_spans_messages_and_summary(folder: Path) -> None:
    text_out = run(folder, "show", AGENT_TRACE_ID, "--json").output
    document = msgspec.json.decode(text_out)

    assert not has_control_characters(text_out)
    assert [(row["name"], row["depth"], row["notes"]) for row in document["spans"]] == [
        ("root", 0, []),
        ("call", 1, []),
        ("broken", 1, []),
        ("orphan", 0, ["orphan"]),
    ]
    assert [message["role"] for message in document["messages"]] == ["user", "assistant"]
    assert (document["root"]["trace_id"], document["kinds"]["llm"], document["sessions"]) == (
        AGENT_TRACE_ID,
        1,
        ["s-1"],
    )


# export and import


def span_names(lines: bytes) -> list[str]:
    return sorted(msgspec.json.decode(line)["name"] for line in lines.splitlines())


def test_exported_traces_are_imported_unchanged(folder: Path, tmp_path: Path) -> None:
    other_folder = tmp_path / "other"
    saved = run(folder, "export").stdout_bytes
    otlp_lines = run(folder, "export", "--format", "otlp").stdout_bytes

    assert span_names(saved) == ["alone", "broken", "call", "orphan", "root"]
    assert run(other_folder, "import", "-", stdin=saved).output == "5 spans imported, 0 unchanged.\n"
    second_import = run(other_folder, "import", "-", "--json", stdin=gzip.compress(otlp_lines))
    assert msgspec.json.decode(second_import.output) == {
        "new": 0,
        "replaced": 0,
        "unchanged": 5,
        "rejected": 0,
        "reasons": [],
    }
    assert run(other_folder, "export").stdout_bytes == saved
    assert run(tmp_path / "third", "import", "-", stdin=otlp_lines).output == "5 spans imported, 0 unchanged.\n"
    assert run(tmp_path / "third", "export").stdout_bytes == saved
    assert b"\xe2\x80\xae" not in saved


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--workflow", "tutor"], ["alone"]),
        (["--trace", CHAT_TRACE_ID], ["alone"]),
        (["--session", "s-1"], ["broken", "call", "orphan", "root"]),
        (["--session", "s-1", "--status", "error"], []),
        (["--status", "ok", "--filter", "kind=agent"], ["broken", "call", "orphan", "root"]),
        (["--search", "hello"], ["alone"]),
        (["--from", "1h", "--to", "2999-01-01"], ["alone", "broken", "call", "orphan", "root"]),
        (["--to", "1h"], []),
        (["--filter", "http.route=/chat"], ["alone"]),
        (["--filter", "http.route^=/c", "--filter", "duration_ms >= 1000", "--filter", "model~GPT"], []),
        (["--filter", "tokens_in<4", "--filter", "duration_ms>2000"], []),
        (["--filter", '{"field": "model", "op": "exists"}', "--filter", "name!=x"], ["alone"]),
    ],
)
def test_options_select_what_is_exported(folder: Path, options: list[str], expected: list[str]) -> None:
    assert span_names(run(folder, "export", *options).stdout_bytes) == expected


@pytest.mark.parametrize(
    "options",
    [
        ["--filter", "nonsense"],
        ["--filter", "{"],
        ["--filter", "duration_ms=long"],
        ["--filter", "statuss=error"],
        ["--from", "yesterday"],
        ["--format", "html"],
        ["--format", "html", "--trace", "0", "--session", "s-1"],
        ["--format", "csv"],
    ],
)
def test_invalid_export_options_are_a_usage_error(folder: Path, options: list[str]) -> None:
    with pytest.raises(click.UsageError):
        run(folder, "export", *options)


def test_the_export_format_follows_the_file_extension(folder: Path) -> None:
    page, lines, session_page = folder / "trace.html", folder / "traces.jsonl", folder / "talk.html"
    printed = run(folder, "export", "-o", str(lines)).stderr

    run(folder, "export", "--trace", AGENT_TRACE_ID, "-o", str(page))
    run(folder, "export", "--session", "s-1", "-o", str(session_page))
    assert printed == f"{lines}: 2 traces.\n"
    assert len(lines.read_bytes().splitlines()) == 5
    for file in (page, session_page):
        assert file.read_text().startswith("<!doctype html>")
        assert "Why is the sky blue?" in file.read_text()
    assert run(folder, "export", "--trace", AGENT_TRACE_ID, "--format", "html").stdout_bytes == page.read_bytes()
    with pytest.raises(TargetNotFound):
        run(folder, "export", "-o", str(folder / "nowhere" / "x.jsonl"))
    with pytest.raises(NotFound):
        run(folder, "export", "--session", "nobody", "-o", str(session_page))


def otlp_document(folder: Path) -> bytes:
    """An OTLP/JSON request, formatted over many lines."""
    (line,) = run(folder, "export", "--format", "otlp", "--trace", CHAT_TRACE_ID).stdout_bytes.splitlines()
    return msgspec.json.format(line, indent=2)


def test_the_import_format_is_detected_from_the_content(folder: Path, tmp_path: Path) -> None:
    files = {
        "records": run(folder, "export").stdout_bytes,
        "lines": run(folder, "export", "--format", "otlp").stdout_bytes,
        "document": otlp_document(folder),
        "marked": b"\xef\xbb\xbf\n" + otlp_document(folder),
        "protobuf": request(*spans()),
    }
    for name, content in files.items():
        for kind, packed in (("plain", content), ("gzip", gzip.compress(content))):
            file = tmp_path / f"{name}.{kind}"
            file.write_bytes(packed)
            other_folder = tmp_path / f"{name}-{kind}"
            count = 1 if name in ("document", "marked") else 5
            printed = run(other_folder, "import", str(file), str(file)).output
            assert (name, kind, printed) == (
                name,
                kind,
                f"{count} span{'s' * (count != 1)} imported, {count} unchanged.\n",
            )
    assert run(tmp_path / "nothing", "import", "-", stdin=b"").output == "0 spans imported, 0 unchanged.\n"
    assert run(tmp_path / "nothing", "import", "-", stdin=b" \n\n").output == "0 spans imported, 0 unchanged.\n"


def test_rejected_lines_are_reported_and_the_rest_is_imported(folder: Path, tmp_path: Path) -> None:
    good = run(folder, "export", "--trace", CHAT_TRACE_ID).stdout_bytes.rstrip(b"\n")
    record = msgspec.json.decode(good)

    def but(**fields: Any) -> bytes:
        return msgspec.json.encode(record | fields)

    bad = [
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "00"}]}]}]}',
        b"{",
        b"[]",
        b'{"a": 1}',
        but(trace_id="x\x1b"),
        but(span_id="0" * 16),
        but(start="2026-01-01T00:00:00"),
        but(duration_ms=-1),
        but(duration_ms=1e300),
        but(messages_in=[{"role": "nobody"}]),
        b'{"resourceSpans": 1}',
        b'{"a": ' + b"[" * 5000,
    ]
    result = run(tmp_path / "other", "import", "-", stdin=b"\n".join([good, *bad, b""]), code=1)

    assert result.stdout == "1 span imported, 0 unchanged, 12 rejected.\n"
    assert result.stderr.splitlines() == [
        "error: Rejected standard input, line 2: spans[0]: trace id has 1 bytes, not 16.",
        "error: Rejected standard input, line 3: not valid JSON: Input data was truncated.",
        "error: Rejected standard input, line 4: not a JSON object.",
        "error: Rejected standard input, line 5: neither a span record (no 'trace_id') nor OTLP (no 'resourceSpans').",
        "error: Rejected standard input, line 6: trace_id must be 32 hexadecimal digits.",
    ]
    broken_first = run(tmp_path / "other", "import", "-", stdin=b"{\n" + good, code=1)
    assert broken_first.stdout == "0 spans imported, 1 unchanged, 1 rejected.\n"


def test_an_unreadable_file_or_line_is_one_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = gzip.compress(run(folder, "export").stdout_bytes)

    with pytest.raises(TargetNotFound):
        run(folder, "import", str(folder / "nowhere"))
    with pytest.raises(InvalidBody, match="No spans found in standard input"):
        run(folder, "import", "-", stdin=b"not\njson\n")
    with pytest.raises(InvalidBody, match="not valid gzip"):
        run(folder, "import", "-", stdin=full[:-20])
    monkeypatch.setattr("palaver.cli.trace.importer.MAX_LINE_BYTES", 100)
    with pytest.raises(TooLarge):
        run(folder, "import", "-", stdin=b"\n" + b"\x12" * 200)
    long = run(folder, "import", "-", stdin=b'{"a": 1}\n{"b": "' + b"x" * 500 + b'"}\n{"c": 1}', code=1)
    assert [line.partition(": ")[2] for line in long.stderr.splitlines()] == [
        "Rejected standard input, line 1: neither a span record (no 'trace_id') nor OTLP (no 'resourceSpans').",
        "Rejected standard input, line 2: larger than 100 bytes.",
        "Rejected standard input, line 3: neither a span record (no 'trace_id') nor OTLP (no 'resourceSpans').",
    ]


def test_a_span_that_cannot_be_stored_is_reported_and_the_rest_is_imported(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from palaver.storage.spans import writes

    saved = run(folder, "export").stdout_bytes
    add = writes.insert_spans

    def picky(db: Any, rows: Any, **more: Any) -> Any:
        if any(row.name == "call" for row in rows):
            raise ValueError("not this one")
        return add(db, rows, **more)

    monkeypatch.setattr(writes, "insert_spans", picky)
    result = run(tmp_path / "other", "import", "-", stdin=saved, code=1)

    assert result.stdout == "4 spans imported, 0 unchanged, 1 rejected.\n"
    assert result.stderr == f"error: Rejected standard input, line 1: failed to store span {span_id('call')}.\n"


def test_imported_spans_are_redacted_by_the_configured_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "palaver.toml").write_text('[[redact]]\npath = "attributes.order"\naction = "hash"\n')
    monkeypatch.chdir(tmp_path)
    secret = "sk-proj-" + "a1B2" * 8
    otlp_lines = request(span("root", order="order 42", note=f"key {secret}"))

    run(tmp_path, "import", "-", stdin=otlp_lines)
    first = run(tmp_path, "export").stdout_bytes
    imported_again = run(tmp_path / "other", "import", "-", stdin=first)
    second = run(tmp_path / "other", "export").stdout_bytes

    attributes = msgspec.json.decode(first)["attributes"]
    assert re.fullmatch("‹[0-9a-f]{16}›", attributes["order"])
    assert attributes["note"] == "key ***"
    assert (imported_again.output, second) == ("1 span imported, 0 unchanged.\n", first)
    assert b"order 42" not in first
    assert secret.encode() not in first
    assert secret.encode() not in (tmp_path / "palaver.db").read_bytes()


# tail


async def open_folder_database(folder: Path) -> Database:
    return open_database(str(folder / "palaver.db"))


def import_spans(folder: Path, *new_spans: Span) -> None:
    run(folder, "import", "-", stdin=request(*new_spans))


async def test_the_follower_returns_a_trace_once_when_its_root_arrives_or_times_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_tail, "ROOT_TIMEOUT_S", 0.0)
    database = await open_folder_database(folder)
    following = trace_tail.TraceFollower(database, "default", ALL_SPANS)
    assert [row.name for row in await following.start(10)] == ["root", "alone"]
    assert await following.poll() == []

    monkeypatch.setattr(trace_tail, "ROOT_TIMEOUT_S", 60.0)
    await asyncio.to_thread(import_spans, folder, span("child", 7, trace="v", parent="top"))
    before_root = await following.poll()
    await asyncio.to_thread(import_spans, folder, span("top", 6, trace="v"), span("later", 8, trace="t", parent="root"))
    printed = await following.poll()
    await asyncio.to_thread(import_spans, folder, span("alone2", 9, trace="w", parent="other"))
    unrooted = await following.poll()
    monkeypatch.setattr(trace_tail, "ROOT_TIMEOUT_S", 0.0)
    after_timeout = await following.poll()
    await database.close()

    assert (before_root, [(row.name, row.spans) for row in printed], unrooted) == ([], [("top", 2)], [])  # type: ignore[attr-defined]
    assert [row.name for row in after_timeout] == ["alone2"]


async def test_the_follower_returns_new_spans_that_match_the_filter(folder: Path) -> None:
    database = await open_folder_database(folder)
    following = trace_tail.SpanFollower(database, "default", build_query(["kind=llm"], None))
    assert await following.start(0) == []
    assert [row.name for row in await trace_tail.SpanFollower(database, "default", ALL_SPANS).start(2)] == [
        "orphan",
        "alone",
    ]

    await asyncio.to_thread(
        import_spans, folder, span("plain", 7), chat_span("new", "Hi", "Ho", 8), chat_span("team", "Hi", "Ho", 9)
    )
    assert [row.name for row in await following.poll()] == ["new", "team"]
    assert await following.poll() == []
    await database.close()


def test_tail_starts_with_the_existing_traces_or_spans(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stopped(_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(trace_tail, "POLL_INTERVAL_S", 0.0)
    monkeypatch.setattr(trace_tail.SpanFollower, "poll", stopped)
    monkeypatch.setattr(trace_tail.TraceFollower, "poll", stopped)

    traces = run(folder, "tail").output.splitlines()
    document = [msgspec.json.decode(line) for line in run(folder, "tail", "--spans", "--json").stdout.splitlines()]

    assert [line[10:].split()[:4] for line in traces if line] == [
        [AGENT_TRACE_ID[:8], "ok", "root", "5.0"],
        [CHAT_TRACE_ID[:8], "ok", "tutor", "1.0"],
    ]
    assert [row["name"] for row in document] == ["root", "call", "broken", "orphan", "alone"]
    assert run(folder, "tail", "-n", "0").stdout == ""
    only = run(folder, "tail", "--spans", "--filter", "status=error").stdout
    assert re.fullmatch(
        rf"\d\d:\d\d:\d\d  {AGENT_TRACE_ID[:8]}  error       broken +250 ms +-   → no \ufffd\[31mmap\n", only
    ), only


async def test_the_follower_limits_its_memory_and_adapts_to_reset_positions(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_tail, "_MAX_REMEMBERED_TRACES", 1)
    database = await open_folder_database(folder)
    following = trace_tail.TraceFollower(database, "default", ALL_SPANS)
    await following.start(10)
    following._last_position = 1000

    await following.poll()
    assert following._last_position == 5
    assert len(following._printed_traces) == 1
    await database.close()


@pytest.mark.parametrize(
    ("ms", "printed"), [(0.0, "0 µs"), (0.25, "250 µs"), (12.4, "12 ms"), (59_940, "59.9 s"), (600_000, "10 min")]
)
def test_durations_are_formatted_with_readable_units(ms: float, printed: str) -> None:
    assert format_duration(ms) == printed


@pytest.mark.parametrize("as_json", [False, True])
def test_tail_follows_until_interrupted_and_exits_with_0(folder: Path, as_json: bool) -> None:
    argv = ["trace", "tail", "-n", "1", "--db", str(folder / "palaver.db"), *(["--json"] if as_json else [])]
    process = subprocess.Popen(
        [sys.executable, "-m", "palaver.cli", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        import_spans(folder, chat_span("new", "And\\u001b?", "Well.", 9, trace="x"))
        second = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()

    assert (process.returncode, errors.strip()) == (0, "")
    if as_json:
        assert [msgspec.json.decode(line)["name"] for line in (first, second)] == ["alone", "new"]
    else:
        start = rf"\d\d:\d\d:\d\d  {CHAT_TRACE_ID[:8]}  ok          tutor"
        assert re.fullmatch(rf"{start} {{21}}      1\.0 s           3\+2  Hi → Hello\.\n", first), first
        assert second.endswith("And\ufffd? → Well.\n"), second
