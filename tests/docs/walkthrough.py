"""Do what a page of the docs says, as its reader would: real shell, real servers, the files that the page shows.

A page that begins with `<!-- walkthrough -->` is run in an empty folder, in the home folder of a new user; one that
begins with `<!-- walkthrough: after guides/other.md -->` continues where that page ended. Its blocks are, in order:

- a block after `<!-- file: NAME -->`: the content of that file; `<!-- append: NAME -->` adds to its end, and a `diff`
  block after `<!-- edit: NAME -->` replaces lines in it
- `sh`: commands. `palaver serve`, `worker`, `demo`, `trace tail` and `uvicorn` keep running; a new one on the same port
  replaces the old one. `pip install` only checks the names of extras. After `<!-- exit code: N -->` the last command is
  expected to fail
- `text` right after `sh`: what the server prints, or the last commands on standard output, standard error or both, in
  either order (progress, which a terminal does not keep, may be left out). `…` stands for any text, or for any lines
  where it is a line; times, durations and ids may differ
- any other block, and those after `<!-- not run: REASON -->`, are only shown

A page that begins with `<!-- walkthrough: on machines -->` is run by machines.py instead: each block also has a comment
`<!-- on: MACHINE -->`.

`<!-- in the browser: NAME -->` stands above what the reader does in the browser. tests/e2e/test_get_started.py does it,
and runs the pages with this mark.

Ports 8642 to 8649 of the page are mapped to free ones. An id of eight hexadecimal digits in an output, with letters and
digits, stands in the commands after it for the id that was printed.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Self

from tests.docs.pages import DOCS, ROOT
from tests.server_process import free_port

COMMAND_TIMEOUT_S = 120
START_TIMEOUT_S = 120
OUTPUT_TIMEOUT_S = 60
"""How long a server may take to print what a page shows."""

MARK = re.compile(r"\A<!-- walkthrough(?:: after (\S+))? -->\n")
MACHINES_MARK = "<!-- walkthrough: on machines -->\n"
_BLOCK = re.compile(
    r"""
    ^(?P<comments>(?:\ *<!--[^\n]*-->\n)*)
    ^(?P<indent>\ *)```(?P<language>\w*)[^\n]*\n
    (?P<source>.*?)
    ^(?P=indent)```$
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_COMMENT = re.compile(r"<!-- (file|append|edit|not run|exit code|on): ?(.*?) -->")
_BROWSER_MARK = re.compile(r"^<!-- in the browser: (\S+) -->$", re.MULTILINE)
_SERVER = re.compile(r"^(?:\w+=\S* )*(?:palaver (serve|worker|demo|trace tail)|(uvicorn))\b")
_SHORT_ID = re.compile(r"\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{8}\b")
_PROGRESS = re.compile(r"^[\d,]+ of [\d,]+ runs?\b.*\n", re.MULTILINE)
"""Lines that a terminal shows as a progress bar."""
_PORT = re.compile(r"\b864[2-9]\b")
_EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
_PRELUDE = r"""
pip() {{ :; }}
curl() {{ command curl --no-progress-meter "$@"; }}
set -eo pipefail
[ -f {state} ] && . {state}
cd {folder}
trap 'export -p >{state}; pwd >{state}.folder' EXIT
"""
"""What a later command keeps of an earlier one: variables and the folder. curl prints no progress on a terminal."""
_VARIABLE = re.compile(
    r"""\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\ UTC)?   # time
    |\b\d\d:\d\d:\d\d\b                                               # time of day
    |\b\d+(?:\.\d+)?\ ?(?:ms|µs|s)\b(?:/s)?|\b\d+(?:\.\d+)?/s\b        # duration, rate
    |\b[0-9a-f]{16,64}\b|\b[0-9a-f]{8}(?=…)                             # hexadecimal id
    |\bplv_(?:…|[0-9a-z_]{20,})                                        # API key
    |\b(?:[a-z]+_)+[0-9a-z-]{20,}                                       # our ids
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block with what the comment above it says."""

    language: str
    source: str
    line: int
    action: str
    """`file`, `append`, `edit`, `not run`, `exit code`, `in the browser`, or empty."""
    value: str
    follows_directly: bool
    """Whether nothing but white space is between it and the block before."""
    machine: str = ""
    """The machines of a page with several."""


def read_blocks(page: str) -> list[Block]:
    found: list[Block] = []
    end = 0
    for match in _BLOCK.finditer(page):
        comments = dict[str, str](_COMMENT.findall(match["comments"]))
        machine = comments.pop("on", "")
        action, value = next(reversed(comments.items()), ("", ""))
        found.append(
            Block(
                language=match["language"],
                source=dedent(match["source"]),
                line=page.count("\n", 0, match.start("source")) + 1,
                action=action,
                value=value,
                follows_directly=bool(found) and not page[end : match.start()].strip(),
                machine=machine,
            )
        )
        end = match.end()
    return sorted([*found, *_browser_steps(page)], key=lambda block: block.line)


def _browser_steps(page: str) -> Iterator[Block]:
    for match in _BROWSER_MARK.finditer(page):
        line = page.count("\n", 0, match.start()) + 1
        yield Block(language="", source="", line=line, action="in the browser", value=match[1], follows_directly=False)


def is_walkthrough(page: str) -> bool:
    """Whether a page of the repository, such as docs/index.md, begins with a mark."""
    text = (ROOT / page).read_text("utf-8")
    return text.startswith(MACHINES_MARK) or MARK.match(text) is not None


def walkthrough_pages(*, in_browser: bool = False) -> dict[str, list[str]]:
    """Return the pages that begin with the mark, each with the pages to run before it.

    They are those with steps in the browser, or those without.
    """
    previous = {
        path.relative_to(DOCS).as_posix(): match[1]
        for path in sorted(DOCS.rglob("*.md"))
        if (match := MARK.match(path.read_text("utf-8")))
    }
    continued = set(previous.values())
    chains: dict[str, list[str]] = {}
    for page in previous:
        if page not in continued:
            chain = [page]
            while before := previous[chain[0]]:
                chain.insert(0, before)
            if any(_BROWSER_MARK.search((DOCS / step).read_text("utf-8")) for step in chain) == in_browser:
                chains[page] = chain
    return chains


@dataclass(eq=False)
class _Server:
    command: str
    process: "subprocess.Popen[str]"
    lines: list[str] = field(default_factory=list[str])

    def output(self) -> str:
        return "\n".join(self.lines)

    def count(self, text: str) -> int:
        return sum(text in line for line in self.lines)

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(20)


class Reader:
    """A reader who follows pages in one folder. Use as a context manager; servers are stopped at its end."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "project"
        self.folder.mkdir(parents=True)
        self._state = home / "shell-state"
        self.browse: Callable[[str], None] | None = None
        """Does the browser steps, by their names."""
        self._ports: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._servers: dict[str, _Server] = {}
        self._output = ""
        self._last_server: _Server | None = None
        self._folder_now = str(self.folder)
        self._environment = {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONUNBUFFERED": "1",
            "PALAVER_PORT": self.port("8642"),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.stop()

    def port(self, shown: str) -> str:
        """Return the port that stands for one of a page."""
        if shown not in self._ports:
            self._ports[shown] = str(free_port())
        return self._ports[shown]

    def follow(self, page: str) -> None:
        """Do what a page says. Raises AssertionError with the line of the page where it does not work."""
        is_output_expected = False
        for block in read_blocks((DOCS / page).read_text("utf-8")):
            place = f"docs/{page}:{block.line}"
            if block.action == "not run":
                is_output_expected = False
                continue
            if block.action == "in the browser":
                assert self.browse is not None, f"{place}: needs a browser"
                self.browse(block.value)
            elif block.action in ("file", "append", "edit"):
                self._write(block, place)
            elif block.language == "sh":
                self._run(block.source, place, int(block.value or "0"))
            elif block.language == "text" and is_output_expected and block.follows_directly:
                self._check_output(block.source, place)
            is_output_expected = block.language == "sh"

    def _write(self, block: Block, place: str) -> None:
        path = Path(self._folder_now, block.value)
        path.parent.mkdir(parents=True, exist_ok=True)
        reloads = {server: server.count("Serving at") for server in self._reloading_servers()}
        source = self._with_ports(block.source)
        match block.action:
            case "file":
                path.write_text(source, "utf-8")
            case "append":
                path.write_text(f"{path.read_text('utf-8')}\n\n{source}", "utf-8")
            case _:
                path.write_text(_apply_diff(path.read_text("utf-8"), source, place), "utf-8")
        if path.suffix == ".py":
            for server, count in reloads.items():
                _wait_until(lambda: server.count("Serving at") > count, f"{place}: no reload: {server.output()}")  # noqa: B023

    def _reloading_servers(self) -> Iterator[_Server]:
        return (server for server in self._servers.values() if "--reload" in server.command)

    def _run(self, source: str, place: str, exit_code: int) -> None:
        """Run the commands of a block; its output is that of the last ones."""
        source = _SHORT_ID.sub(lambda match: self._ids.get(match[0], match[0]), self._with_ports(source))
        for is_server, commands in _command_groups(source):
            if is_server:
                self._serve(commands, place)
            else:
                self._execute(commands, place, exit_code)

    def _execute(self, commands: str, place: str, exit_code: int) -> None:
        bash = shutil.which("bash")
        assert bash, "bash is needed to follow the docs"
        for extras in re.findall(r"pip install .*palaver\[([\w,-]+)\]", commands):
            assert set(extras.split(",")) <= set(_EXTRAS), f"{place}: unknown extra in {extras}"
        prelude = _PRELUDE.format(state=shlex.quote(str(self._state)), folder=shlex.quote(self._folder_now))
        result = subprocess.run(
            [bash, "--noprofile", "--norc", "-c", prelude + commands],
            env=self._environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        self._output, self._last_server = _PROGRESS.sub("", result.stdout), None
        assert result.returncode == exit_code, f"{place}: exit code {result.returncode}\n{result.stdout}"
        self._folder_now = Path(f"{self._state}.folder").read_text("utf-8").strip()

    def _serve(self, command: str, place: str) -> None:
        port = match[1] if (match := re.search(r"--port (\d+)", command)) else self.port("8642")
        kind = match[1] or match[2] if (match := _SERVER.match(command)) else ""
        is_listening = kind in ("serve", "demo", "uvicorn")
        key = f"{'server' if is_listening else kind} {port}"
        if key in self._servers:
            self._servers.pop(key).stop()
        state = f"[ -f {self._state} ] && . {self._state}\n"
        process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-c", f"{state}cd '{self._folder_now}'\n{command}"],
            env=self._environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )
        server = _Server(command, process)
        self._servers[key] = self._last_server = server
        threading.Thread(target=_read_lines, args=(server,), daemon=True).start()
        ready = {"serve": "Serving at", "demo": "Serving at", "uvicorn": "running on"}.get(kind, "")
        _wait_until(
            lambda: kind == "trace tail" or any(ready in line for line in server.lines) or process.poll() is not None,
            f"{place}: not started: {server.output()}",
            seconds=START_TIMEOUT_S,
        )
        assert process.poll() is None, f"{place}: {command} ended: {server.output()}"
        if is_listening:
            url = next(line for line in server.lines if ready in line)
            port_number = int(re.search(r"://\S+:(\d+)", url)[1])  # pyright: ignore[reportOptionalSubscript]
            _wait_until(lambda: _accepts(port_number), f"{place}: not listening", seconds=START_TIMEOUT_S)

    def _check_output(self, expected: str, place: str) -> None:
        server = self._last_server
        if server is not None:
            with suppress(AssertionError):
                _wait_until(lambda: self._matches(expected, server.output()), "", seconds=OUTPUT_TIMEOUT_S)
        actual = self._output if server is None else server.output()
        assert self._matches(expected, actual), f"{place}: expected\n{expected}\nactual\n{self._as_shown(actual)}"

    def _matches(self, expected: str, actual: str) -> bool:
        ids = _match_output(expected, self._as_shown(actual))
        self._ids |= ids or {}
        return ids is not None

    def _as_shown(self, output: str) -> str:
        """Return an output with the ports and folders of the page."""
        for shown, port in self._ports.items():
            output = re.sub(rf"\b{port}\b", shown, output)
        return output.replace(str(self.folder.parent), "~")

    def _with_ports(self, source: str) -> str:
        return _PORT.sub(lambda match: self.port(match[0]), source)


def _command_groups(source: str) -> Iterator[tuple[bool, str]]:
    """Yield the servers of a block one by one, and the commands between them together."""
    lines = re.sub(r"\\\n", "\0", source).splitlines()
    group: list[str] = []
    for line in lines:
        command = line.replace("\0", "\\\n")
        if _SERVER.match(command):
            if any(part.strip() for part in group):
                yield False, "\n".join(group)
            group = []
            yield True, command
        else:
            group.append(command)
    if any(part.strip() for part in group):
        yield False, "\n".join(group)


def _apply_diff(text: str, diff: str, place: str) -> str:
    """Replace the lines with `-` (and a space as context) by those with `+`. They must occur once."""
    before = "".join(f"{line[1:]}\n" for line in diff.splitlines() if line[:1] in "- ")
    after = "".join(f"{line[1:]}\n" for line in diff.splitlines() if line[:1] in "+ ")
    assert text.count(before) == 1, f"{place}: occurs {text.count(before)} times:\n{before}"
    return text.replace(before, after)


def output_matches(expected: str, actual: str) -> bool:
    """Whether an output is as shown on a page, apart from times and ids."""
    return _match_output(expected, actual) is not None


def _match_output(expected: str, actual: str) -> dict[str, str] | None:
    """Return the printed ids by those of the page, or None if the output differs."""
    match = re.fullmatch(_pattern(expected), _normalize(actual), re.DOTALL)
    return None if match is None else {name.removeprefix("id_"): value for name, value in match.groupdict().items()}


def _normalize(text: str) -> str:
    text = re.sub(r"\x1b\[[\d;]*m", "", text)
    text = "\n".join(" ".join(line.split()) for line in text.splitlines())
    return _VARIABLE.sub("<…>", text).strip()


def _pattern(expected: str) -> str:
    """Return the regular expression that a shown output stands for."""
    lines = [re.escape(line).replace("<…>", ".*?").replace("…", "[^\n]*") for line in _normalize(expected).splitlines()]
    pattern = "\n".join(lines)
    for short_id in dict.fromkeys(_SHORT_ID.findall(pattern)):
        first, *others = pattern.split(short_id)
        pattern = f"{first}(?P<id_{short_id}>[0-9a-f]{{8}}){f'(?P=id_{short_id})'.join(others)}"
    return re.sub(r"(?:^|\n)\[\^\n\]\*(?=\n|$)", r"(?:(?:^|\\n)[^\\n]*)*", pattern)


def _read_lines(server: _Server) -> None:
    assert server.process.stdout is not None
    with server.process.stdout:
        for line in server.process.stdout:
            server.lines.append(line.rstrip("\n"))


def _accepts(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _wait_until(condition: "object", message: str, *, seconds: float = OUTPUT_TIMEOUT_S) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, message
        time.sleep(0.05)
