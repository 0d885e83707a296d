"""S7: output on a page, on a terminal and in a log is inert."""

import asyncio
import io
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from palaver import Message, chat
from palaver.cli import call as calling
from palaver.cli.main import cli
from palaver.core.api_keys import ALL_SCOPES
from palaver.outbound import printable, printable_json, printable_lines
from palaver.server import logging_setup
from palaver.storage import api_keys as kept
from palaver.testing import client
from tests.server.keyed_server import KeyedServer, keyed_server

HOSTILE = "\x1b[31mred\x1b]0;title\x07\x9b2J\x7f\u202egnp\u2066x\u2069\u200f\u061c\u2028next\u0085end"
CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that no output contains; multi-line output may contain tabs and line breaks."""
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>'\"&[bold red]"


# Pages


def parse_policy(value: str) -> dict[str, str]:
    rules = [rule.strip().partition(" ") for rule in value.split(";")]
    return {name: allowed for name, _, allowed in rules}


@chat(description=MARKUP + HOSTILE)
def shown(messages: list[Message], subject: str = MARKUP) -> str:
    """A chat with a hostile description."""
    return messages[-1].text


async def test_page_has_a_strict_policy_and_no_scripts_or_external_resources() -> None:  # S7.1, S9.2
    async with client(shown) as http:
        page = await http.get("/")

    rules = parse_policy(page.headers["content-security-policy"])
    assert rules["default-src"] == "'none'"
    assert (rules["base-uri"], rules["frame-ancestors"]) == ("'none'", "'none'")
    assert "unsafe" not in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cross-origin-opener-policy"] == "same-origin"
    assert not re.search(r"<script|<img|<iframe|<link|<object|@import|url\(|\son\w+=", page.text.replace("onerror", ""))
    assert re.findall(r"(?:src|href)=[\"']?([^\"'\s>]+)", page.text.replace("src=x", "")) == ["/openapi.json"]


async def test_descriptions_are_escaped_in_a_page() -> None:  # S7.1
    async with client(shown) as http:
        page = (await http.get("/")).text

    assert "&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;" in page
    assert "<script" not in page


async def test_reflected_input_is_never_served_as_a_page() -> None:  # S7.1, S7.4
    """Reflected input is JSON or a stream, and browsers must not sniff another type."""
    async with client(shown) as http:
        thread = (await http.post("/api/threads", json={"workflow": "shown", "title": MARKUP})).json()["id"]
        file_headers = {"content-type": "text/html", "x-palaver-filename": quote(MARKUP.replace("/", ""))}
        file = await http.post("/api/files", content=MARKUP.encode(), headers=file_headers)
        responses = [
            await http.get(f"/{MARKUP}"),
            await http.get(f"/api/{MARKUP}"),
            await http.get(f"/v1/responses/{MARKUP.replace('/', '')}"),
            await http.get("/metrics"),
            await http.get("/openapi.json"),
            await http.get(f"/api/threads/{thread}"),
            await http.post("/shown/invoke", json={"messages": [{"role": "user", "content": MARKUP}]}),
            file,
        ]
        download = await http.get(f"/api/files/{file.json()['id']}")
        exported = await http.get(f"/api/threads/{thread}/export?format=html")

    kinds = {answer.headers["content-type"].partition(";")[0] for answer in responses}
    assert kinds <= {"application/json", "text/plain"}
    assert (file.status_code, download.status_code, download.content) == (201, 200, MARKUP.encode())
    assert download.headers["content-type"] == "application/octet-stream"
    assert download.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in download.headers["content-security-policy"]
    assert exported.headers["content-disposition"].startswith("attachment")
    assert "<script>alert" not in exported.text


# Terminals


@given(st.text())
def test_printable_line_has_no_control_characters(text: str) -> None:  # S7.5
    output = printable(text, 10_000)

    assert not CONTROL_CHARACTERS.search(output)
    assert not {"\n", "\r", "\t"} & set(output)
    output.encode()  # Lone surrogates are replaced.


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_printable_lines_have_no_control_characters_but_tabs_and_line_breaks(text: str) -> None:  # S7.5
    output = printable_lines(text)

    assert not CONTROL_CHARACTERS.search(output)
    assert (output.count("\n"), output.count("\t")) == (text.count("\n"), text.count("\t"))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_printable_json_has_no_control_characters_and_decodes_unchanged(text: str) -> None:  # S7.5
    output = printable_json(msgspec.json.encode({"a": text}).decode())

    assert not CONTROL_CHARACTERS.search(output)
    assert msgspec.json.decode(output) == {"a": text}


async def create_hostile_objects(server: KeyedServer) -> None:
    """Create one of everything that has a name, with a hostile name."""
    key, secret = kept.new_api_key(project="default", name=HOSTILE, scopes=ALL_SCOPES, now=datetime.now(UTC))
    await server.database.write(kept.insert_key, key)
    header = {"authorization": f"Bearer {secret}"}
    messages = [
        {"role": "user", "name": HOSTILE, "content": HOSTILE},
        {
            "role": "assistant",
            "content": HOSTILE,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "tool", "arguments": HOSTILE}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": HOSTILE},
    ]
    thread = {
        "id": "conv_one",
        "workflow": "scripted",
        "title": HOSTILE,
        "messages": messages,
        "metadata": {"a": HOSTILE},
    }
    created = await server.http.post("/api/threads", json=thread, headers=header)
    assert created.status_code == 201, created.text
    variant = {"name": "loud", "description": HOSTILE, "parameters": {}}
    created = await server.http.post("/api/workflows/scripted/variants", json=variant, headers=header)
    assert created.status_code == 201, created.text


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("shown") / "palaver.db")

    async def fill() -> None:
        async with keyed_server(path) as server:
            await create_hostile_objects(server)

    asyncio.run(fill())
    return path


APP = f"""
from palaver import Message, chat
from palaver.core.messages import Data, Refusal, ToolCall, ToolResult

HOSTILE = {HOSTILE!r}

@chat(description=HOSTILE)
async def loud(messages: list[Message], subject: str = HOSTILE):
    yield HOSTILE
    yield ToolCall(call_id="c", name="tool", arguments=HOSTILE)
    yield ToolResult(call_id="c", output=HOSTILE)
    yield Data(name="status", value=HOSTILE)
    yield Data(name="chart", value={{"a": HOSTILE}})
    raise RuntimeError(HOSTILE)
"""

LIST_COMMANDS = [
    "thread list",
    "thread list --json",
    "thread export",
    "variant list",
    "variant list --json",
    "key list",
]
LIST_COMMANDS += ["key list --json"]


@pytest.mark.parametrize("line", LIST_COMMANDS)
def test_list_commands_print_no_control_characters(database: str, line: str) -> None:  # S7.5
    ran = CliRunner().invoke(cli, [*line.split(), "--db", database])

    assert ran.exception is None, ran.exception
    assert "gnp" in ran.output  # Part of the hostile name, title or description.
    assert CONTROL_CHARACTERS.findall(ran.output) == []


def test_thread_show_prints_no_control_characters(database: str) -> None:  # S7.5
    result = CliRunner().invoke(cli, ["thread", "list", "--json", "--db", database])
    thread = msgspec.json.decode(result.output)[0]["id"]
    for options in ([], ["--json"]):
        ran = CliRunner().invoke(cli, ["thread", "show", thread, "--db", database, *options])
        assert ran.exception is None, ran.exception
        assert CONTROL_CHARACTERS.findall(ran.output) == []
        assert "red" in ran.output


@pytest.mark.parametrize(
    ("line", "exit_code"),
    [
        ("inspect loud_app.py", 0),
        ("inspect loud_app.py --json", 0),
        ("doctor loud_app.py", 1),  # The unknown setting is a problem.
        ("doctor loud_app.py --json", 1),
    ],
)
def test_inspect_and_doctor_print_no_control_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, exit_code: int
) -> None:  # S7.5
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loud_app.py").write_text(APP, encoding="utf-8")
    unknown_setting = json.dumps(HOSTILE).replace("\x7f", "\\u007f")
    (tmp_path / "palaver.toml").write_text(f"{unknown_setting} = 1\n", encoding="utf-8")
    ran = CliRunner().invoke(cli, line.split(), standalone_mode=False)

    assert (ran.exception, ran.return_value) == (None, exit_code)
    assert "loud" in ran.output
    assert "gnp" in ran.output  # Part of the hostile description or setting.
    assert CONTROL_CHARACTERS.findall(ran.output) == []


def test_chat_command_prints_no_control_characters(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:  # S7.5
    caplog.set_level(logging.CRITICAL + 1, "palaver")
    (tmp_path / "loud_app.py").write_text(APP, encoding="utf-8")
    ran = CliRunner().invoke(cli, ["chat", str(tmp_path / "loud_app.py")], input=f"{HOSTILE[:1]}hi\n/history\n")

    assert "red" in ran.output
    assert CONTROL_CHARACTERS.findall(ran.output) == []


def test_call_command_filters_control_characters_from_the_reply() -> None:  # S7.5
    filter_output = calling._terminal_filter()
    raw = f'{{"a":"{HOSTILE}é"}}\n'.encode()
    pieces = [filter_output(raw[index : index + 1]) for index in range(len(raw))]

    assert CONTROL_CHARACTERS.findall(b"".join(pieces).decode()) == []
    assert b"".join(pieces).endswith('é"}\n'.encode())


# Logs


@pytest.fixture
def open_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], io.StringIO]]:
    """Return a stream with the log as `palaver serve` configures it."""
    root = logging.getLogger("palaver")
    before = root.handlers, root.level, root.propagate
    output = io.StringIO()

    def open_(as_json: bool) -> io.StringIO:
        monkeypatch.setattr(sys, "stderr", output)
        monkeypatch.setattr(output, "isatty", lambda: not as_json)
        logging_setup.configure_logging()
        return output

    yield open_
    root.handlers, root.level, root.propagate = before


def fail(text: str) -> None:
    raise RuntimeError(text)


async def write_log(text: str) -> None:
    log = logging.getLogger("palaver.server")
    log.warning("%s said %s", text, text)
    try:
        fail(text)
    except RuntimeError:
        log.exception("It failed: %s", text)
    logging_setup.log_access((0.0, "req_1", "GET", f"/{text}", 404, 0.001, None))
    logging.getLogger("palaver").handlers[0].flush()


async def test_json_log_record_is_one_line_for_any_text(open_log: Callable[[bool], io.StringIO]) -> None:  # S7.5
    output = open_log(True)
    forged = HOSTILE + '\n{"level": "info", "message": "forged"}\r\n\ud800'

    await write_log(forged)

    lines = output.getvalue().split("\n")
    records: list[dict[str, Any]] = [msgspec.json.decode(line) for line in lines if line]
    assert [record["level"] for record in records] == ["warning", "error", "info"]
    assert lines[-1] == ""
    assert CONTROL_CHARACTERS.findall(output.getvalue()) == []
    assert records[0]["message"].startswith(HOSTILE)
    assert "RuntimeError" in records[1]["traceback"]


async def test_terminal_log_has_no_control_characters(open_log: Callable[[bool], io.StringIO]) -> None:  # S7.5
    output = open_log(False)

    await write_log(HOSTILE + "\r\nforged")

    assert CONTROL_CHARACTERS.findall(output.getvalue()) == []
    assert [line for line in output.getvalue().splitlines() if line.startswith("forged")] == []
