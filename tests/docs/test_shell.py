"""Every shell line in the docs works.

Palaver commands that need no server and no network are run, in a folder with the files that they name; others are only
parsed, which finds unknown options. Requests of curl are sent to a server in this process; with an ellipsis in them,
only the route and the JSON body are checked. Other programs must be known.
"""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner

from palaver.demo import eliza, headline
from palaver.discovery.workflow_loader import load_one
from palaver.testing import client, echo
from tests.docs import commands, curl, routes
from tests.docs.pages import PAGES, ROOT, page_name, pages_with
from tests.docs.reader_folder import EARLIER_COMMANDS, create_reader_folder
from tests.docs.shell import ShellCall, calls

BLOCKS_BY_PAGE = pages_with("sh", "bash")
SKIPPED_COMMANDS = {"serve", "demo", "worker", "chat", "conform", "doctor", "fake-model", "adaptor", "trace tail"}
"""Commands that run until stopped, or that inspect this machine or the network."""
REMOTE_URL_PREFIXES = ("http://", "https://", "postgresql://")
OTHER_PROGRAMS = {
    "pip",
    "pipx",
    "uvx",
    "docker",
    "open",
    "git",
    "cd",
    "npm",
    "node",
    "python",
    "jq",
    "sed",
    "zcat",
    "gzip",
    "pg_dump",
    "pg_restore",
}
"""Other programs that the docs may use."""
OUTPUT_BLOCK = re.compile(r"^<!-- printed by: (.+) -->\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUTS_BY_PAGE = {
    page_name(page): outputs for page in PAGES if (outputs := OUTPUT_BLOCK.findall(page.read_text("utf-8")))
}
"""Commands and their exact output, by page."""
MAKE_TARGETS = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
EXAMPLES = {
    context.command_path: commands.examples(context)
    for program in commands.PROGRAMS
    for context in commands.contexts(program)
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The reader's folder, isolated from this machine."""
    workdir = tmp_path / "here"
    create_reader_folder(workdir)
    monkeypatch.chdir(workdir)
    monkeypatch.setenv("PALAVER_DB", str(tmp_path / "palaver.db"))
    monkeypatch.setattr("palaver.cli.workflow_lookup.is_listening", lambda _url: False)
    monkeypatch.setattr("palaver.cli.call.is_listening", lambda _url: False)
    return workdir


@pytest.mark.parametrize("page", BLOCKS_BY_PAGE)
def test_every_shell_line_on_a_page_works(page: str, folder: Path, tmp_path: Path) -> None:
    for arguments in EARLIER_COMMANDS.get(page, ()):
        run_command(ShellCall(program="palaver", arguments=tuple(arguments)))
    requests: dict[str, curl.CurlRequest] = {}
    for block in BLOCKS_BY_PAGE[page]:
        for call in calls(block.source, folder, create_notes_folder(tmp_path, block.line)):
            label = f"{page}:{block.line}: {call.program} {' '.join(call.arguments)}"
            runs = block.reason is None and call.is_complete
            match call.program:
                case "palaver" | "palaver-jobchat":
                    check_call(call, runs=runs, label=label)
                case "curl":
                    request = curl.parse_curl(call.arguments, folder)
                    check_request(request, label=label)
                    requests |= {label: request} if runs and request.is_local else {}
                case "make":
                    assert call.arguments[0] in MAKE_TARGETS, label
                case other:
                    assert other in OTHER_PROGRAMS, label
    if requests:
        asyncio.run(send_requests(requests))


@pytest.mark.parametrize("page", OUTPUTS_BY_PAGE)
def test_output_shown_on_a_page_is_printed(page: str, folder: Path, tmp_path: Path) -> None:
    for number, (line, printed) in enumerate(OUTPUTS_BY_PAGE[page]):
        [call] = calls(line, folder, create_notes_folder(tmp_path, number))
        assert run_command(call, label=f"{page}: {line}") == printed


def test_every_command_has_an_example_in_its_help() -> None:
    assert [path for path, example in EXAMPLES.items() if not example] == []


def test_every_example_in_the_help_of_a_command_is_valid(folder: Path, tmp_path: Path) -> None:
    for call in calls("\n".join(EXAMPLES.values()), folder, create_notes_folder(tmp_path, 0)):
        label = f"{call.program} {' '.join(call.arguments)}"
        if call.program in commands.PROGRAMS:
            check_call(call, runs=False, label=label)
        else:
            assert call.program in (*OTHER_PROGRAMS, "curl"), label


def create_notes_folder(folder: Path, line: int) -> Path:
    path = folder / f"notes-{line}"
    path.mkdir()
    return path


def check_call(call: ShellCall, *, runs: bool, label: str) -> None:
    """Run a palaver command, or only parse it."""
    try:
        command = commands.parse(call.program, call.arguments)
    except click.exceptions.Exit:
        return
    except click.ClickException as error:
        pytest.fail(f"{label}: {error.format_message()}")
    is_remote = any(argument.startswith(REMOTE_URL_PREFIXES) for argument in call.arguments)
    if runs and not is_remote and command.partition(" ")[2] not in SKIPPED_COMMANDS:
        run_command(call, label=label)


def run_command(call: ShellCall, *, label: str = "") -> str:
    """Run a command and return its output."""
    program = commands.PROGRAMS[call.program]
    result = CliRunner().invoke(program, call.arguments, input=call.stdin, standalone_mode=False)

    assert (result.exception, result.return_value or 0) == (None, 0), f"{label}: {result.output}"
    return result.stdout


def check_request(request: curl.CurlRequest, *, label: str) -> None:
    """Check that the route exists, and that a JSON body is valid."""
    assert not request.is_local or routes.is_route(request.method, request.path), label
    if request.body and request.headers["content-type"] == "application/json":
        msgspec.json.decode(request.body)


async def send_requests(requests: Mapping[str, curl.CurlRequest]) -> None:
    """Send the requests of a page to a server, in order."""
    async with client(*load_one("app.py"), eliza, headline, echo) as http:
        for label, request in requests.items():
            answer = await http.request(request.method, request.target, headers=request.headers, content=request.body)
            assert answer.is_success, f"{label}: {answer.text}"


@pytest.mark.parametrize(
    "arguments", [["serve", "app.py", "--nope"], ["key", "creat"], ["serve"], ["trace", "tail", "x"]]
)
def test_invalid_commands_are_detected(arguments: list[str], folder: Path) -> None:
    assert (folder / "app.py").exists()
    with pytest.raises(click.UsageError):
        commands.parse("palaver", arguments)


def test_curl_arguments_are_parsed(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}", encoding="utf-8")
    line = ["-s", "localhost:8642/a/b?c=1", "-H", "X-One: 1", "--json", "@a.json"]

    assert curl.parse_curl(line, tmp_path) == curl.CurlRequest(
        method="POST",
        host="localhost:8642",
        path="/a/b",
        query="c=1",
        headers={"x-one": "1", "content-type": "application/json", "accept": "application/json"},
        body=b"{}",
    )


def test_calls_of_a_shell_block_are_recorded_with_their_stdin(tmp_path: Path) -> None:
    source = "echo '{\"a\": 1}' | palaver call \\\n  x - # why\nX=1 palaver list $(date +%F >/dev/null) <name>\n"

    assert calls(source, tmp_path, create_notes_folder(tmp_path, 1)) == [
        ShellCall(program="palaver", arguments=("call", "x", "-"), stdin='{"a": 1}\n'),
        ShellCall(program="palaver", arguments=("list", "…")),
    ]
