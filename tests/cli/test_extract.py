"""`palaver extract`: documents, JSON lines and standard input, with text and JSON output."""

import io
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from palaver.cli import input_files
from palaver.cli.main import main
from palaver.core.extraction import preview, read_conversation

USER_MESSAGE = {"role": "user", "content": "hi"}
ASSISTANT_MESSAGE = {"role": "assistant", "content": "hello"}
CHAT = {"messages": [USER_MESSAGE]}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":\n"Oslo"}'}}
Extract = Callable[..., SimpleNamespace]


def text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def lines(*values: Any) -> str:
    return "".join(f"{text(value)}\n" for value in values)


def server_answer(value: Any) -> Any:
    """Return what the server answers."""
    return msgspec.json.decode(text({"conversation": read_conversation(value), "preview": preview(value)}))


@pytest.fixture
def extract(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Extract:
    """Run the command in this process: on a file of that name and content, or on standard input."""
    monkeypatch.chdir(tmp_path)

    def run(name: str, content: str | bytes, *options: str) -> SimpleNamespace:
        body = content if isinstance(content, bytes) else content.encode()
        if name == "-":
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
        else:
            Path(name).write_bytes(body)
        with pytest.raises(SystemExit) as exit_info:
            main(["extract", name, *options])
        printed = capsys.readouterr()
        return SimpleNamespace(code=exit_info.value.code, out=printed.out, err=printed.err)

    return run


# A document


def test_a_conversation_is_printed_in_full_with_its_path_dialect_and_side(extract: Extract) -> None:
    messages = [
        {"role": "system", "content": "Be kind.\n\nBe brief."},
        {
            "role": "user",
            "name": "ann",
            "content": [
                {"type": "text", "text": "Weather?"},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                {"type": "file", "file": {"filename": "b.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
                {"type": "mystery", "x": 1},
            ],
        },
        {"role": "assistant", "content": None, "reasoning_content": "Rain, I think.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "12 degrees\r\nrain"},
        {"role": "tool", "tool_call_id": "c2", "content": "nothing"},
        {"role": "assistant", "content": "Rain.", "refusal": "No more."},
    ]

    run = extract("trace.json", text({"inputs": {"prompt": messages}}))

    assert (run.code, run.err) == (0, "")
    assert run.out == (
        "/inputs/prompt  chat-completions  input  6 messages\n"
        "\n"
        "system\n"
        "  Be kind.\n"
        "\n"
        "  Be brief.\n"
        "user (ann)\n"
        "  Weather?\n"
        "  file: image/* https://example.org/a.png\n"
        "  file: application/pdf b.pdf 4 base64 characters\n"
        '  data chat-completions:mystery: {"type":"mystery","x":1}\n'
        "assistant\n"
        "  reasoning: Rain, I think.\n"
        '  call weather({"city":\n'
        '    "Oslo"})\n'
        "tool\n"
        "  result of weather: 12 degrees\n"
        "    rain\n"
        "tool\n"
        "  result of c2: nothing\n"
        "assistant\n"
        "  Rain.\n"
        "  refusal: No more.\n"
    )


def test_every_other_kind_of_part_has_a_label(extract: Extract) -> None:
    parts = [
        {"type": "reasoning", "text": "", "encrypted": "x"},
        {"type": "tool-result", "call_id": "", "output": {"a": 1}, "is_error": True},
        {"type": "file", "media_type": "image/png", "url": "data:image/png;base64,AA"},
    ]

    run = extract("ours.json", text([{"role": "assistant", "parts": parts}]))

    assert run.out == (
        "(the whole value)  palaver  1 message\n"
        "\n"
        "assistant\n"
        "  reasoning: (encrypted)\n"
        '  error of unknown call: {"a":1}\n'
        "  file: image/png data URL of 24 characters\n"
    )


def test_terminal_escapes_in_a_conversation_are_neutralized(extract: Extract) -> None:
    evil = "\x1b[31mred\x9b0m\u202e[bold]b[/bold]\ttab\x07"
    calls = [{"id": evil, "type": "function", "function": {"name": evil, "arguments": evil}}]
    value = [
        {"role": "user", "name": evil, "content": evil},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": evil, "content": ""},
    ]

    full = extract("evil.json", text(value)).out
    line = extract("evil.jsonl", text(value)).out
    as_json = extract("evil.json", text(value), "--json").out
    strict = extract("evil.json", text(value), "--strict").out
    no_match = extract("evil.json", text({evil: 1})).out

    assert "  \\x1b[31mred\\x9b0m\\u202e[bold]b[/bold]\ttab\\x07\n" in full
    assert line == (
        "line 1: (the whole value)  chat-completions  3 messages  user: [31mred0m\\u202e[bold]b[/bold] tab\n"
    )
    assert no_match == (
        "No conversation found.\n  the value: has no list under a known key"
        " (keys: \\x1b[31mred\\x9b0m\\u202e[bold]b[/bold]\\ttab\\x07)\n"
    )
    assert msgspec.json.decode(strict) == value
    for out in (full, line, as_json, strict, no_match):
        assert not set("\x1b\x9b\x07\u202e") & set(out)


@pytest.mark.parametrize(
    ("value", "reasons"),
    [
        (
            {"messages": [USER_MESSAGE, ASSISTANT_MESSAGE, {"content": "x"}]},
            ["  /messages: element 2 has no role (keys: content)"],
        ),
        (
            {"prompt": [1], "outputs": "x"},
            ["  /prompt: element 0 is not an object", "  /outputs: is text, not messages"],
        ),
        (None, ["  the value: is null"]),
    ],
)
def test_without_a_conversation_every_path_has_a_reason(extract: Extract, value: Any, reasons: list[str]) -> None:
    run = extract("x.json", text(value))

    assert (run.code, run.err) == (1, "")
    assert run.out.splitlines() == ["No conversation found.", *reasons]


def test_prefer_selects_the_input_or_the_output_side(extract: Extract) -> None:
    value = text({"inputs": {"prompt": [USER_MESSAGE]}, "outputs": {"completion": [ASSISTANT_MESSAGE]}})

    assert [extract("x.json", value, "--prefer", side).out.splitlines()[0] for side in ("input", "output")] == [
        "/inputs/prompt  chat-completions  input  1 message",
        "/outputs/completion  chat-completions  output  1 message",
    ]


def test_json_is_what_the_server_answers(extract: Extract) -> None:
    run = extract("x.json", text(CHAT), "--json")

    assert (run.code, run.err) == (0, "")
    assert msgspec.json.decode(run.out) == server_answer(CHAT)
    assert run.out.startswith('{\n  "conversation": {\n')


def test_json_without_a_conversation_has_the_reasons(extract: Extract) -> None:
    run = extract("x.json", '{"messages": [1]}', "--json")

    assert run.code == 1
    assert msgspec.json.decode(run.out) == server_answer({"messages": [1]}) | {
        "reasons": [{"path": "/messages", "why": "element 0 is not an object"}]
    }


# The strict search


def test_strict_prints_the_original_message_list(extract: Extract) -> None:
    value = '{"messages": [{"role": "user", "content": "é", "extra": 1.50}]}'

    pretty, compact = extract("x.json", value, "--strict"), extract("x.json", value, "--strict", "--json")

    assert pretty.out == '[\n  {\n    "role": "user",\n    "content": "é",\n    "extra": 1.5\n  }\n]\n'
    assert compact.out == '[{"role":"user","content":"é","extra":1.5}]\n'
    assert (pretty.code, compact.code) == (0, 0)


def test_strict_prints_the_reasons_to_stderr_if_nothing_is_found(extract: Extract) -> None:
    value = text([{"type": "human", "content": "q"}])

    text_run, as_json = extract("x.json", value, "--strict"), extract("x.json", value, "--strict", "--json")

    assert text_run.err == as_json.err
    assert text_run.err.splitlines()[0] == "No conversation found."
    assert text_run.err.splitlines()[-1] == "hint: Found without --strict: (the whole value)  langchain  1 message"
    assert (text_run.out, as_json.out) == ("", "null\n")
    assert (text_run.code, as_json.code) == (1, 1)


def test_strict_prints_one_output_line_per_input_line(extract: Extract) -> None:
    content = f"{text(CHAT)}\noops\n{text({'prompt': [1]})}\n"

    text_run, as_json = extract("x.jsonl", content, "--strict"), extract("x.jsonl", content, "--strict", "--json")

    assert text_run.out == '[{"role":"user","content":"hi"}]\nnull\nnull\n'
    assert text_run.err == (
        "line 2 is not valid JSON: invalid character (byte 0)\n"
        "line 3: /prompt: element 0 is not an object\n"
        "3 records: 1 with a conversation, 1 without, 1 invalid\n"
    )
    assert [msgspec.json.decode(line) for line in as_json.out.splitlines()] == [
        {"line": 1, "messages": [USER_MESSAGE]},
        {"line": 2, "error": "The line is not valid JSON: invalid character (byte 0)."},
        {"line": 3, "messages": None, "reasons": [{"path": "/prompt", "why": "element 0 is not an object"}]},
    ]


# Lines

MIXED_LINES = f"{text(CHAT)}\n \noops\n{text({'a': 1})}\n{text({'choices': [{'message': ASSISTANT_MESSAGE}]})}\n"
MIXED_OUTPUT = (
    "line 1: /messages  chat-completions  1 message  user: hi\n"
    "line 3 is not valid JSON: invalid character (byte 0)\n"
    "line 4: no conversation: the value: has no list under a known key (keys: a)\n"
    "line 5: /choices  chat-completions  output  1 message  assistant: hello\n"
)


@pytest.mark.parametrize("name", ["x.jsonl", "x.ndjson", "x.json", "x", "-"])
def test_each_record_gets_a_line_and_an_invalid_one_does_not_stop_the_rest(extract: Extract, name: str) -> None:
    run = extract(name, MIXED_LINES)

    assert run.out == MIXED_OUTPUT
    assert run.err == "4 records: 2 with a conversation, 1 without, 1 invalid\n"
    assert run.code == 1


def test_json_lines_are_recognized_despite_an_invalid_first_line(extract: Extract) -> None:
    run = extract("-", f"oops\n{text(CHAT)}\n")

    assert run.out.splitlines() == [
        "line 1 is not valid JSON: invalid character (byte 0)",
        "line 2: /messages  chat-completions  1 message  user: hi",
    ]


def test_some_records_without_a_conversation_are_not_a_failure(extract: Extract) -> None:
    run = extract("x.jsonl", lines(CHAT, {"a": 1}, *[CHAT] * 1203))

    assert run.code == 0
    assert run.err == "1,205 records: 1,204 with a conversation, 1 without\n"


def test_records_without_any_conversation_are_a_failure(extract: Extract) -> None:
    assert extract("x.jsonl", lines({"a": 1})).code == 1
    assert extract("x.jsonl", "").err == "0 records: 0 with a conversation, 0 without\n"


def test_the_summary_of_each_record_is_a_single_line(extract: Extract) -> None:
    call_only = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    wide = dict.fromkeys(("messages", "prompt", "completion", "logs", "history"), "text")

    run = extract(
        "x.jsonl",
        lines([{"role": "user", "content": f"a\n{'b ' * 99}"}], [call_only], wide, {"role": "user", "content": ""}),
    )

    assert run.out.splitlines() == [
        f"line 1: (the whole value)  chat-completions  1 message  user: a {'b ' * 28}b…",
        'line 2: (the whole value)  chat-completions  1 message  assistant: weather({"city": "Oslo"})',
        (
            "line 3: no conversation: /messages: is text, not messages; /history: is text, not messages; "
            "/logs: is text, not messages; 2 more"
        ),
        "line 4: (the whole value)  chat-completions  1 message",
    ]


def test_json_output_of_lines_has_line_numbers(extract: Extract) -> None:
    run = extract("x.jsonl", MIXED_LINES, "--json")

    assert [msgspec.json.decode(line) for line in run.out.splitlines()] == [
        {"line": 1, **server_answer(CHAT)},
        {"line": 3, "error": "The line is not valid JSON: invalid character (byte 0)."},
        {
            "line": 4,
            **server_answer({"a": 1}),
            "reasons": [{"path": "", "why": "has no list under a known key (keys: a)"}],
        },
        {"line": 5, **server_answer({"choices": [{"message": ASSISTANT_MESSAGE}]})},
    ]


# One document or lines


@pytest.mark.parametrize(
    "content",
    [
        text(CHAT),
        f"\n\n{text(CHAT)}\n\n",
        msgspec.json.format(text(CHAT), indent=2),
        f"[\n{text(USER_MESSAGE)},\n{text(ASSISTANT_MESSAGE)}\n]",
        b"\xef\xbb\xbf" + text(CHAT).encode(),
    ],
)
def test_a_single_document_is_recognized_in_any_layout(extract: Extract, content: str | bytes) -> None:
    run = extract("-", content)

    assert (run.code, run.err) == (0, "")
    assert run.out.splitlines()[2:4] == ["user", "  hi"]


# Unreadable input


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "x.json is empty: expected JSON."),
        ('{"messages": [', "x.json is not valid JSON: input data was truncated."),
        ('{\n "a": 1,\n "b": {}\n', "x.json is not valid JSON: input data was truncated."),
        ("{'a': 1}", "x.json is not valid JSON: object keys must be strings (byte 1)."),
        (b'"\xff"', "x.json is not valid UTF-8."),
        ('{"messages": []}'.encode("utf-16"), "x.json is not valid UTF-8."),
        ("[" * 100_000 + "]" * 100_000, "x.json is nested too deeply."),
    ],
)
def test_an_unreadable_document_is_a_one_line_error(extract: Extract, content: str | bytes, error: str) -> None:
    run = extract("x.json", content)

    assert (run.code, run.out, run.err) == (1, "", f"error: {error}\n")


def test_a_path_that_is_not_a_readable_file_is_a_one_line_error(
    extract: Extract, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed: list[tuple[Any, str]] = []
    for name in ("missing.json", ".", "a\0b"):
        with pytest.raises(SystemExit) as exit_info:
            main(["extract", name])
        printed.append((exit_info.value.code, capsys.readouterr().err))

    assert printed == [
        (1, "error: Cannot read missing.json: no such file or directory.\n"),
        (1, "error: Cannot read .: is a directory.\n"),
        (1, "error: Cannot read a\\x00b: embedded null byte.\n"),
    ]


def test_a_value_nested_too_deep_to_print_is_reported(extract: Extract, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any) -> Any:
        raise RecursionError

    monkeypatch.setattr("palaver.cli.extract.read_conversation", refuse)

    assert extract("x.json", text(CHAT)).err == "error: The value is nested too deeply to print.\n"
    assert extract("x.jsonl", text(CHAT)).out == "line 1 is nested too deeply to print\n"


def test_wrong_usage_exits_with_2(extract: Extract) -> None:
    assert extract("x.json", "{}", "--prefer", "both").code == 2


def test_characters_that_the_terminal_cannot_encode_are_escaped(
    extract: Extract, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)

    extract("x.jsonl", text([{"role": "user", "content": "é\u2713"}]))

    narrow.flush()
    assert narrow.buffer.getvalue().endswith(b"user: \\xe9\\u2713\n")


# Terminals, pipes and large files


def start_extract(*arguments: str, cwd: Path, stdout: int, stderr: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-W", "error", "-m", "palaver.cli", "extract", *arguments]
    env = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    return subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=env)


def terminal_output(terminal: int) -> str:
    """Return everything written to a terminal until its last writer closed it."""
    pieces: list[bytes] = []
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # The end is an error on Linux, an empty read elsewhere.
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(terminal)
    return b"".join(pieces).decode()


def write_large_file(folder: Path) -> int:
    """Write a file large enough for a progress bar; return its number of records."""
    line = lines({"messages": [USER_MESSAGE, {**ASSISTANT_MESSAGE, "content": "x" * 1000}]})
    count = input_files._MIN_BAR_BYTES // len(line) + 1
    (folder / "large.jsonl").write_text(line * count)
    return count


def test_a_large_file_shows_a_progress_bar_on_stderr_only(tmp_path: Path) -> None:
    count = write_large_file(tmp_path)
    reader_fd, writer_fd = pty.openpty()
    with (tmp_path / "out").open("wb") as out:
        process = start_extract("large.jsonl", cwd=tmp_path, stdout=out.fileno(), stderr=writer_fd)
        os.close(writer_fd)
        printed = terminal_output(reader_fd)

    assert process.wait(60) == 0, printed
    assert "━" in printed
    assert printed.splitlines()[-1].endswith(f"{count} records: {count} with a conversation, 0 without")
    assert (tmp_path / "out").read_text().splitlines() == [
        f"line {number}: /messages  chat-completions  2 messages  user: hi" for number in range(1, count + 1)
    ]


class Terminal(io.TextIOWrapper):
    """A stream on a terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")

    def isatty(self) -> bool:
        return True

    def terminal_output(self) -> str:
        self.flush()
        self.seek(0)
        return self.read()


@pytest.mark.parametrize("seconds", [-1.0, 60.0])
def test_no_line_is_lost_above_a_progress_bar_on_the_same_terminal(
    extract: Extract, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    count = write_large_file(tmp_path)
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(input_files, "_PRINT_INTERVAL_S", seconds)  # No interval, or one longer than the test.

    extract("large.jsonl", (tmp_path / "large.jsonl").read_bytes(), "--json")

    printed = screen.terminal_output()
    json_lines = [line for line in printed.splitlines() if '{"line":' in line]
    assert [msgspec.json.decode(line[line.index("{") :])["line"] for line in json_lines] == list(range(1, count + 1))
    assert "━" in printed


def test_notes_on_stderr_are_printed_intact_with_a_progress_bar(
    extract: Extract, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = write_large_file(tmp_path)
    monkeypatch.setattr(sys, "stderr", screen := Terminal())

    run = extract("large.jsonl", (tmp_path / "large.jsonl").read_bytes() + b"oops\n", "--strict")

    assert run.out.count("\n") == count + 1
    assert f"line {count + 1} is not valid JSON: invalid character (byte 0)\n" in screen.terminal_output()


def test_there_is_no_progress_bar_without_a_terminal(extract: Extract, tmp_path: Path) -> None:
    count = write_large_file(tmp_path)

    run = extract("large.jsonl", (tmp_path / "large.jsonl").read_bytes())

    assert run.err == f"{count} records: {count} with a conversation, 0 without\n"


def test_a_closed_output_pipe_is_not_an_error(tmp_path: Path) -> None:
    write_large_file(tmp_path)
    process = start_extract("large.jsonl", cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        first = process.stdout.readline()
        process.stdout.close()
        printed = process.stderr.read()

    process.wait(60)
    assert first == b"line 1: /messages  chat-completions  2 messages  user: hi\n"
    assert printed == b""
