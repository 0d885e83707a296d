"""Every shell line in the docs works.

Palaver commands that need no server and no network are run, in a folder with the files that they name and in the home
folder of a new user; others are only parsed, which finds unknown options. Servers must use the databases in which the
page creates keys, and must not refuse to start. Requests of curl are sent to a server in this process; with an ellipsis
in them, only the route and the JSON body are checked. Other programs must be known. test_walkthroughs.py runs the
commands of walkthroughs, with their servers.
"""

import asyncio
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner

from palaver.demo import eliza, headline
from palaver.discovery.workflow_loader import load_one
from palaver.testing import client, echo
from tests.docs import commands, curl, routes
from tests.docs.pages import PAGES, ROOT, Block, page_name, pages_with
from tests.docs.reader_folder import EARLIER_COMMANDS, create_reader_folder
from tests.docs.server_databases import check_servers
from tests.docs.shell import ShellCall, calls, exported_variables
from tests.docs.walkthrough import is_walkthrough

BLOCKS_BY_PAGE = pages_with("sh", "bash")
PAGES_TO_RUN = [page for page in BLOCKS_BY_PAGE if not is_walkthrough(page)]
SKIPPED_COMMANDS = {"serve", "demo", "worker", "chat", "conform", "doctor", "fake-model", "adaptor", "trace tail"}
"""Commands that run until stopped, or that inspect this machine or the network."""
REMOTE_URL_PREFIXES = ("http://", "https://", "postgresql://")
OTHER_PROGRAMS = {
    ".",
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
    "python3",
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
def machine(tmp_path: Path) -> Path:
    """The folder that stands for `/` of the reader's machine, in commands that are run."""
    return tmp_path / "machine"


@pytest.fixture
def folder(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The reader's folder, on a machine on which Palaver was never used."""
    home = machine / "home/you"
    workdir = home / "project"
    create_reader_folder(workdir)
    monkeypatch.chdir(workdir)
    for name in [name for name in os.environ if name.startswith(("PALAVER_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("palaver.cli.workflow_lookup.is_listening", lambda _url: False)
    monkeypatch.setattr("palaver.cli.call.is_listening", lambda _url: False)
    return workdir


@pytest.mark.parametrize("page", PAGES_TO_RUN)
def test_every_shell_line_on_a_page_works(page: str, folder: Path, machine: Path, tmp_path: Path) -> None:
    for arguments in EARLIER_COMMANDS.get(page, ()):
        run_command(ShellCall(program="palaver", arguments=tuple(arguments)), machine)
    requests: dict[str, curl.CurlRequest] = {}
    for block, block_calls in page_calls(page, folder, tmp_path):
        for call in block_calls:
            label = f"{page}:{block.line}: {call.program} {' '.join(call.arguments)}"
            runs = block.reason is None and call.is_complete
            match call.program:
                case "palaver" | "palaver-jobchat":
                    check_call(call, machine, runs=runs, label=label)
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


@pytest.mark.parametrize("page", PAGES_TO_RUN)
def test_every_server_on_a_page_starts_and_finds_the_keys_of_the_page(page: str, folder: Path, tmp_path: Path) -> None:
    earlier = [ShellCall(program="palaver", arguments=tuple(arguments)) for arguments in EARLIER_COMMANDS.get(page, ())]
    blocks = [(f"{page}:{block.line}", block_calls) for block, block_calls in page_calls(page, folder, tmp_path)]

    assert list(check_servers([("earlier", earlier), *blocks], folder)) == []


@pytest.mark.parametrize("page", OUTPUTS_BY_PAGE)
def test_output_shown_on_a_page_is_printed(page: str, folder: Path, machine: Path, tmp_path: Path) -> None:
    for number, (line, printed) in enumerate(OUTPUTS_BY_PAGE[page]):
        [call] = calls(line, folder, create_notes_folder(tmp_path, number))
        assert run_command(call, machine, label=f"{page}: {line}") == printed


def test_every_command_has_an_example_in_its_help() -> None:
    assert [path for path, example in EXAMPLES.items() if not example] == []


def test_every_example_in_the_help_of_a_command_is_valid(folder: Path, machine: Path, tmp_path: Path) -> None:
    for call in calls("\n".join(EXAMPLES.values()), folder, create_notes_folder(tmp_path, 0)):
        label = f"{call.program} {' '.join(call.arguments)}"
        if call.program in commands.PROGRAMS:
            check_call(call, machine, runs=False, label=label)
        else:
            assert call.program in (*OTHER_PROGRAMS, "curl"), label


def page_calls(page: str, folder: Path, tmp_path: Path) -> Iterator[tuple[Block, list[ShellCall]]]:
    """Yield the blocks of a page with their calls; variables that a block exports are set in those after it."""
    exported: dict[str, str] = {}
    for block in BLOCKS_BY_PAGE[page]:
        notes = create_notes_folder(tmp_path, block.line)
        yield block, calls(block.source, folder, notes, exported)
        exported = exported_variables(notes)


def create_notes_folder(folder: Path, line: int) -> Path:
    path = folder / f"notes-{line}"
    path.mkdir()
    return path


def check_call(call: ShellCall, machine: Path, *, runs: bool, label: str) -> None:
    """Run a palaver command, or only parse it."""
    try:
        command, _ = commands.parse(call.program, call.arguments)
    except click.exceptions.Exit:
        return
    except click.ClickException as error:
        pytest.fail(f"{label}: {error.format_message()}")
    is_remote = any(argument.startswith(REMOTE_URL_PREFIXES) for argument in call.arguments)
    if runs and not is_remote and command.partition(" ")[2] not in SKIPPED_COMMANDS:
        run_command(call, machine, label=label)


def run_command(call: ShellCall, machine: Path, *, label: str = "") -> str:
    """Run a command and return its output, with paths as on the reader's machine."""
    program = commands.PROGRAMS[call.program]
    arguments = [place_on(machine, argument) for argument in call.arguments]
    environment = {name: place_on(machine, value) for name, value in call.environment.items()}
    result = CliRunner().invoke(program, arguments, input=call.stdin, env=environment, standalone_mode=False)

    assert (result.exception, result.return_value or 0) == (None, 0), f"{label}: {result.output}"
    return result.stdout.replace(str(machine), "")


def place_on(machine: Path, argument: str) -> str:
    """Return the argument with an absolute path, such as /srv/palaver/palaver.db, placed in a folder that exists."""
    if not argument.startswith("/"):
        return argument
    path = machine / argument[1:]
    path.parent.mkdir(parents=True, exist_ok=True)
    return str(path)


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


def test_calls_of_a_shell_block_are_recorded_with_their_stdin_and_settings(tmp_path: Path) -> None:
    source = (
        "echo '{\"a\": 1}' | palaver call \\\n  x - # why\nPALAVER_DB=a.db palaver list $(date +%F >/dev/null) <name>\n"
    )
    notes = create_notes_folder(tmp_path, 1)

    assert calls(f"{source}PALAVER_PORT=1\nexport PALAVER_KEY=k\n", tmp_path, notes) == [
        ShellCall(program="palaver", arguments=("call", "x", "-"), stdin='{"a": 1}\n'),
        ShellCall(program="palaver", arguments=("list", "…"), environment={"PALAVER_DB": "a.db"}),
    ]
    assert exported_variables(notes) == {"PALAVER_KEY": "k"}
    assert calls("palaver list", tmp_path, create_notes_folder(tmp_path, 2), {"PALAVER_KEY": "k"}) == [
        ShellCall(program="palaver", arguments=("list",), environment={"PALAVER_KEY": "k"})
    ]


SERVE_PUBLICLY = "palaver serve app.py --host 0.0.0.0 --db /srv/one.db"


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (["palaver key create --db /srv/one.db\n" + SERVE_PUBLICLY], []),
        (["export PALAVER_DB=/srv/one.db\npalaver key create", SERVE_PUBLICLY], []),
        (["palaver key create --db …\n" + SERVE_PUBLICLY.replace("/srv/one.db", "…")], []),
        (["palaver serve app.py --db /srv/one.db\npalaver serve app.py --db /srv/two.db"], []),
        (
            ["palaver key create --db /srv/two.db", SERVE_PUBLICLY],
            [
                (
                    "1: Refusing to listen on 0.0.0.0: no valid API key found in /srv/one.db."
                    " Run `palaver key create --db /srv/one.db` or use --host 127.0.0.1."
                )
            ],
        ),
        (
            ["palaver key create --db /srv/two.db\nPALAVER_DB=/srv/one.db palaver worker app.py"],
            ["0: keys are created in ['/srv/two.db'], servers use ['/srv/one.db']"],
        ),
        (
            ["palaver serve app.py --workers 3 --db /srv/one.db"],
            ["0: --workers 3 requires PostgreSQL. Pass --db postgresql://… or use a single worker."],
        ),
    ],
)
def test_servers_that_would_not_start_or_have_other_keys_are_found(
    sources: list[str], expected: list[str], folder: Path, tmp_path: Path
) -> None:
    exported: dict[str, str] = {}
    blocks: list[tuple[str, list[ShellCall]]] = []
    for number, source in enumerate(sources):
        notes = create_notes_folder(tmp_path, number)
        blocks.append((str(number), calls(source, folder, notes, exported)))
        exported = exported_variables(notes)

    assert list(check_servers(blocks, folder)) == expected
