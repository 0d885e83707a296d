"""CLI commands run as processes: output and exit codes."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from palaver.cli.main import COMMANDS
from tests.server_process import server_process

APP = '''
from dataclasses import dataclass
from palaver import chat, workflow

@dataclass
class Config:
    temperature: float = 0.2

@chat
async def tutor(messages, subject: str = "maths", config: Config = Config()):
    """Explains a subject.

    Args:
        subject: what to explain
    """
    yield f"About {subject}, at {config.temperature}."

@workflow
def shout(text: str) -> str:
    return text.upper()
'''


def palaver(*arguments: str, cwd: Path, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-W", "error", "-m", "palaver.cli", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=cwd, timeout=60, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example(command: str, tmp_path: Path) -> None:
    run = palaver(command, "--help", cwd=tmp_path)

    assert run.returncode == 0
    assert f"  palaver {command}" in run.stdout.partition("Example")[2]


def test_the_main_help_lists_all_commands_and_mentions_the_demo(tmp_path: Path) -> None:
    run = palaver("--help", cwd=tmp_path)

    assert "palaver demo" in run.stdout
    assert all(f"  {command} " in run.stdout for command in COMMANDS)


def test_inspect_shows_the_workflows_of_a_file(folder: Path) -> None:
    run = palaver("inspect", "app.py", cwd=folder)

    assert run.stdout == (
        "tutor  chat  app.py:9\n"
        "  Explains a subject.\n"
        "  inputs      messages  messages, required\n"
        '              subject   string = "maths"  what to explain\n'
        "  parameters  temperature  number = 0.2\n"
        "  output      a message or a list of messages\n"
        "\n"
        "shout  workflow  app.py:18\n"
        "  inputs      text  string, required\n"
        "  output      string\n"
    )


def test_inspect_json_prints_the_document_of_the_inspect_route(folder: Path) -> None:
    run = palaver("inspect", "app.py:shout", "--json", cwd=folder)

    document = msgspec.json.decode(run.stdout)
    assert document["flags"] == {"is_chat": False}
    assert document["revision"]["slug"] == "shout"


def test_inspect_describes_the_workflow_at_a_url(tmp_path: Path) -> None:
    with server_process(tmp_path) as server:
        text_run = palaver("inspect", f"{server.url}/headline", cwd=tmp_path)
        as_json = palaver("inspect", f"{server.url}/eliza/invoke", "--json", cwd=tmp_path)
        unknown = palaver("inspect", f"{server.url}/nobody", cwd=tmp_path)

    assert (text_run.returncode, as_json.returncode, unknown.returncode) == (0, 0, 1)
    assert "not a chat: declared by inspect.flags" in text_run.stdout
    report = msgspec.json.decode(as_json.stdout)
    assert (report["is_chat"], report["evidence"], report["dialect"]) == (True, "inspect.flags", "invoke")
    assert "No workflow found at this URL." in unknown.stdout


NO_KEY_ERROR = (
    "error: Refusing to listen on 0.0.0.0: no valid API key found in the in-memory database."
    " Use --host 127.0.0.1, or a database with a key (--db)."
)
SEVERAL_WORKFLOWS_ERROR = "error: app.py declares several workflows. Use app.py:NAME."
NOT_A_CHAT_ERROR = "error: Workflow 'shout' is not a chat. Use `palaver call app.py:shout payload.json` instead."
ERRORS = {
    "no such file": (("serve", "nope.py"), 1, "error: File 'nope.py' not found."),
    "no such module": (("serve", "nowhere"), 1, "error: File, folder or module 'nowhere' not found."),
    "no such name": (("serve", "app.py:nobody"), 1, "error: Workflow 'nobody' not found in app.py."),
    "a host for all": (("serve", "app.py", "--host", "0.0.0.0"), 2, NO_KEY_ERROR),
    "no such default": (
        ("serve", "app.py", "--default", "x"),
        1,
        "error: Workflow 'x' not found. Available: shout, tutor.",
    ),
    "a chat with what is no chat": (("chat", "app.py:shout"), 1, NOT_A_CHAT_ERROR),
    "a chat with one of several": (("chat", "app.py"), 1, SEVERAL_WORKFLOWS_ERROR),
    "an unknown workflow": (("chat", "nobody"), 1, "error: Workflow 'nobody' not found."),
    "an unknown command": (("dance",), 2, "error: Unknown command 'dance'."),
    "no such payload": (("call", "echo", "nope.json"), 1, "error: Cannot read nope.json: no such file or directory."),
}


@pytest.mark.parametrize(("arguments", "code", "line"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_is_one_line_and_an_exit_code(folder: Path, arguments: tuple[str, ...], code: int, line: str) -> None:
    run = palaver(*arguments, cwd=folder)

    assert (run.returncode, "Traceback" in run.stderr) == (code, False)
    assert line in run.stderr
    assert len([printed for printed in run.stderr.splitlines() if "rror:" in printed]) == 1


def test_a_file_that_cannot_be_loaded_is_named_with_its_error(folder: Path) -> None:
    (folder / "broken.py").write_text("import palaver\n1 / 0\n", encoding="utf-8")
    (folder / "odd.py").write_text("from palaver import chat\n@chat\ndef f(x): ...\n", encoding="utf-8")

    broken, odd = palaver("serve", "broken.py", cwd=folder), palaver("serve", "odd.py", cwd=folder)

    assert broken.stderr == "error: Cannot load broken.py: ZeroDivisionError: division by zero (broken.py, line 2)\n"
    assert odd.stderr.startswith("error: f is declared as a chat but has no parameter for the message history")


def test_call_writes_its_answer_to_stdout_or_a_file(folder: Path) -> None:
    (folder / "payload.json").write_text('{"inputs": {"text": "hello"}}', encoding="utf-8")

    printed = palaver("call", "app.py:shout", "payload.json", "-O", cwd=folder)
    piped = palaver("call", "app.py:shout", "-", cwd=folder, stdin='{"inputs": {"text": "hi"}}')
    saved = palaver("call", "app.py:shout", "payload.json", "-o", "reply.json", cwd=folder)

    assert (printed.stdout, piped.stdout) == ('"HELLO"\n', '"HI"\n')
    assert (saved.stdout, (folder / "reply.json").read_text()) == ("", '"HELLO"\n')


def test_call_streams_records(folder: Path) -> None:
    run = palaver("call", "app.py:tutor", "-", "--stream", cwd=folder, stdin='{"messages": []}')

    assert [msgspec.json.decode(line)["type"] for line in run.stdout.splitlines()] == [
        *("message_start", "message_delta", "message_end", "done")
    ]


def test_call_reports_every_fault_with_its_path(folder: Path) -> None:
    run = palaver("call", "app.py:shout", "-", cwd=folder, stdin='{"inputs": {"text": 5, "more": 1}}')
    not_json = palaver("call", "app.py:shout", "-", cwd=folder, stdin="{")

    assert run.returncode == not_json.returncode == 1
    assert "/inputs/text: Input 'text' must be" in run.stderr
    assert "/inputs/more: Unknown input 'more'." in run.stderr
    assert "error: Standard input is not valid JSON" in not_json.stderr


def test_call_and_chat_reach_a_server_by_url(tmp_path: Path) -> None:
    body = '{"inputs": {"text": "The rain fell. The rain fell again."}}'
    with server_process(tmp_path) as server:
        over_http = palaver("call", "headline", "-", "--url", server.url, cwd=tmp_path, stdin=body)
        direct = palaver("call", f"{server.url}/headline", "-", cwd=tmp_path, stdin=body)
        chat_run = palaver("chat", "calculator", "--url", server.url, cwd=tmp_path, stdin="1 + 2\n")

    assert over_http.stdout == direct.stdout == '"The Rain Fell Again"\n'
    assert "⚙ add(a=1, b=2)" in chat_run.stdout
    assert chat_run.stdout.endswith("The answer is 3.\n")


def test_a_piped_chat_has_a_history_and_obeys_slash_commands(folder: Path) -> None:
    lines = "hello\nI am glad about my code\n/history\n/reset\n/history\n/nonsense\n/quit\nnever asked\n"

    run = palaver("chat", "eliza", cwd=folder, stdin=lines)

    assert run.returncode == 0
    assert run.stdout.startswith("Hello. What brings you here today?\nHow long have you been glad about your code?\n")
    assert "user: I am glad about my code\nassistant: How long" in run.stdout
    assert "Started a new conversation.\nNo messages yet." in run.stdout
    assert "/again     resend the last message" in run.stdout
    assert "never asked" not in run.stdout


def test_chat_takes_inputs_and_parameters_as_options(folder: Path) -> None:
    run = palaver("chat", "app.py:tutor", "-i", "subject=physics", "-p", "temperature=1", cwd=folder, stdin="Go\n")
    bad = palaver("chat", "app.py:tutor", "-p", "temperature=hot", cwd=folder, stdin="Go\n")

    assert run.stdout == "About physics, at 1.0.\n"
    assert "error: Parameter 'temperature' must be" in bad.stdout


def test_output_of_a_chat_cannot_contain_terminal_escapes(folder: Path) -> None:
    hostile = (
        '[{"text": "\\u001b[2J\\u001b]0;owned\\u0007 \\u202e ok"}, {"tool_call": {"name": "\\u001b[31m", "id": "c"}}]'
    )

    run = palaver("chat", "palaver.testing:scripted", cwd=folder, stdin=hostile + "\n")

    assert "\x1b" not in run.stdout.replace("\x1b[2m", "")
    assert "\u202e" not in run.stdout
    assert "ok" in run.stdout


def test_doctor_shows_where_each_setting_came_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "palaver.toml").write_text("port = 9100\nthreads = 7\n", encoding="utf-8")
    monkeypatch.setenv("PALAVER_THREADS", "9")

    run = palaver("doctor", "app.py", "--json", cwd=folder)

    document = msgspec.json.decode(run.stdout)
    settings = {row["name"]: (row["value"], row["source"]) for row in document["settings"]}
    assert (run.returncode, document["problems"]) == (0, [])
    assert settings["port"] == (9100, "file")
    assert settings["threads"] == (9, "env")
    assert settings["host"] == ("127.0.0.1", "default")
    assert [row["name"] for row in document["workflows"]] == ["tutor", "shout"]


def test_doctor_shows_connections_without_secrets(folder: Path) -> None:
    lines = '[connections.tutor]\nurl = "https://a.example/?key=hunter2"\nheaders = {x = "hunter2", y = "env:KEY"}\n'
    (folder / "palaver.toml").write_text(lines, encoding="utf-8")

    run = palaver("doctor", "app.py", "--json", cwd=folder)

    settings = {row["name"]: row["value"] for row in msgspec.json.decode(run.stdout)["settings"]}
    assert "hunter2" not in run.stdout
    assert settings["connections"]["tutor"]["headers"] == {"x": "***", "y": "env:KEY"}


def test_an_invalid_setting_is_named_in_the_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALAVER_PORT", "many")

    run = palaver("doctor", cwd=folder)

    assert (run.returncode, run.stderr) == (2, "error: Invalid PALAVER_PORT 'many': must be an integer.\n")
