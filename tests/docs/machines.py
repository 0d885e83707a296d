"""Follow a page of the docs that sets up several machines: each is a folder, and all listen on loopback.

A page that begins with `<!-- walkthrough: on machines -->` has the blocks and marks of a walkthrough (walkthrough.py).
Each block also says where it is used:

- `<!-- on: a b -->`: on these machines, one after the other. `you` is the reader's own computer
- `<!-- on: you, second terminal -->`: there, while the page continues. The `text` block after
  `<!-- output of the second terminal -->` is its output, once it has ended
- `<!-- on: the machine in the second terminal -->`: on the machine that its output names, such as `machine-b`

The commands run in bash, with absolute paths in the folder of the machine, and with the addresses of the page replaced.
Services that `systemctl` starts are started as their unit file says. Programs that change users or install packages are
replaced; PostgreSQL and nginx are real. `plv_…` stands for the last key that was printed.
"""

import os
import pwd
import re
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import httpx

from tests import nginx
from tests.docs.pages import DOCS
from tests.docs.walkthrough import COMMAND_TIMEOUT_S, Block, output_matches, read_blocks
from tests.postgres import Postgres, programs
from tests.server_process import free_port

YOU = "you"
SECOND_TERMINAL = "you, second terminal"
MACHINE_IN_OUTPUT = "the machine in the second terminal"
HOST = "palaver.example.org"
STOP_TIMEOUT_S = 75
OUTPUT_TIMEOUT_S = 120
_MACHINE_PATH = re.compile(r"(?<![\w./:-])/(?=(?:srv|opt|etc|var|usr/local)/)")
OUTPUT_MARK = "<!-- output of the second terminal -->"
_SECRET = re.compile(r"plv_[0-9a-z]{8}_[0-9A-Za-z]{40}")
_PRELUDE = """
curl() {{ command curl --no-progress-meter "$@"; }}
set -eo pipefail
[ -f {state} ] && . {state}
cd {folder}
trap 'export -p >{state}' EXIT
"""
_STUBS = {
    "adduser": 'mkdir -p "$MACHINE/srv/palaver"',
    "apt-get": ":",
    "chown": ":",
    "certbot": """
        folder="$MACHINE/etc/letsencrypt/live/palaver.example.org"
        mkdir -p "$folder"
        exec openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \\
            -addext subjectAltName=DNS:localhost -keyout "$folder/privkey.pem" -out "$folder/fullchain.pem" 2>/dev/null
    """,
    "install": """
        while getopts do:g:m: option; do [ $option != m ] || mode=$OPTARG; done
        shift $((OPTIND - 1))
        exec mkdir -p -m $mode "$@"
    """,
    "nginx": 'exec {nginx} "$@" -c "$MACHINE/nginx.conf"',
    "pip": ":",
    "python3": """
        [ "$1 $2" = "-m venv" ]
        mkdir -p "$3/bin"
        ln -s {bin}/palaver "$3/bin/palaver"
        ln -s "$MACHINE/stubs/pip" "$3/bin/pip"
    """,
    "runuser": """
        [ "$1" = -u ] && [ "$3" = -- ]
        if [ "$2" = postgres ]; then export PGUSER=postgres PGPASSWORD; fi
        shift 3
        exec "$@"
    """,
}
"""Programs that need root, a network or a host name. They check how they are called."""
_NGINX_CONF = """
user {user};
pid {machine}/nginx.pid;
error_log {machine}/error.log;
events {{}}
http {{
    access_log {machine}/access.log;
    {temporary_paths}
    include {machine}/etc/nginx/conf.d/*.conf;
}}
"""


@dataclass(eq=False)
class Service:
    """A process that was started by `systemctl`."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def stop(self) -> None:
        self.process.terminate()  # Only the parent, as KillMode=mixed says.
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_TIMEOUT_S)
        self.kill()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(20)

    def reload(self) -> None:
        self.process.send_signal(signal.SIGHUP)


class Machine:
    """A folder that stands for the file system of a machine, and its services."""

    def __init__(self, folder: Path, name: str, addresses: "Addresses", environment: dict[str, str]) -> None:
        self.name = name
        self.folder = folder / name
        self.home = self.folder if name == YOU else self.folder / "root"
        self.home.mkdir(parents=True)
        self.services: dict[str, Service] = {}
        self._addresses = addresses
        self._environment = {
            "HOME": str(self.home),
            "MACHINE": str(self.folder),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        if name != YOU:
            self._install()

    def write(self, path: str, source: str) -> None:
        target = Path(self.home, self.localize(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self.localize(source), "utf-8")

    def localize(self, source: str) -> str:
        """Return commands or a file of the page with the paths and addresses of this machine."""
        return self._addresses.replace(self._with_paths(source), port=self._addresses.ports.get(self.name))

    def _with_paths(self, source: str) -> str:
        return source if self.name == YOU else _MACHINE_PATH.sub(f"{self.folder}/", source)

    def as_shown(self, output: str) -> str:
        return self._addresses.restore(output).replace(str(self.folder), "")

    def start_shell(self, commands: str) -> "subprocess.Popen[str]":
        state = shlex.quote(str(self.folder / "shell-state"))
        prelude = _PRELUDE.format(state=state, folder=shlex.quote(str(self.home)))
        return subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-c", prelude + commands],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )

    def systemctl(self, arguments: list[str], place: str) -> None:
        """Do what `systemctl` does with the services of the page."""
        command, *names = [argument for argument in arguments if not argument.startswith("-")]
        match command:
            case "daemon-reload":
                return
            case "start" | "enable":
                action: Callable[[str], None] = self._start
            case "stop":
                action = self._stop
            case "restart":
                action = self._restart
            case "reload":
                action = self._reload
            case "kill":
                assert "--signal=KILL" in arguments, place
                action = self._kill
            case _:
                raise AssertionError(f"{place}: systemctl {command} is not supported")
        if command != "enable" or "--now" in arguments:
            for name in names:
                action(name)

    def close(self) -> None:
        for service in self.services.values():
            service.kill()

    def _install(self) -> None:
        stubs = self.folder / "stubs"
        stubs.mkdir()
        for name, source in _STUBS.items():
            values = {"bin": shlex.quote(str(Path(sys.executable).parent)), "nginx": shlex.quote(nginx.program())}
            body = source.replace("{bin}", values["bin"]).replace("{nginx}", values["nginx"])
            (stubs / name).write_text(f"#!/bin/sh\nset -e\n{body}\n", "utf-8")
            (stubs / name).chmod(0o755)
        for path in (
            "etc/nginx/conf.d",
            "etc/cron.daily",
            "etc/systemd/system",
            "usr/local/bin",
            "tmp",
            "var/lib/postgresql",
        ):
            (self.folder / path).mkdir(parents=True)
        paths = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        conf = _NGINX_CONF.format(
            user=pwd.getpwuid(os.geteuid()).pw_name,
            machine=self.folder,
            temporary_paths=" ".join(f"{path}_temp_path {self.folder}/tmp/{path};" for path in paths),
        )
        (self.folder / "nginx.conf").write_text(conf, "utf-8")
        self._environment["PATH"] = f"{self.folder}/usr/local/bin:{stubs}:{self._environment['PATH']}"

    def _start(self, name: str) -> None:
        if name in self.services and self.services[name].process.poll() is None:
            return
        log = self.folder / f"{name}.log"
        command, folder = self._command_of(name)
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.services[name] = Service(process, log)

    def _command_of(self, name: str) -> tuple[list[str], str]:
        if name == "nginx":
            return [nginx.program(), "-c", str(self.folder / "nginx.conf"), "-g", "daemon off;"], str(self.folder)
        text = (self.folder / f"etc/systemd/system/{name}.service").read_text("utf-8")
        unit = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
        (self.folder / "var/lib" / unit["StateDirectory"]).mkdir(exist_ok=True)
        assert unit["User"] == "palaver", "runuser in the page's commands changes to this user"
        return shlex.split(unit["ExecStart"]), unit["WorkingDirectory"]

    def _stop(self, name: str) -> None:
        if name in self.services:
            self.services.pop(name).stop()

    def _restart(self, name: str) -> None:
        if name == "postgresql":
            assert self._addresses.postgres
            self._addresses.postgres.restart()
            return
        self._stop(name)
        self._start(name)

    def _reload(self, name: str) -> None:
        """Reload nginx, which is running since its package was installed."""
        if name in self.services:
            self.services[name].reload()
        else:
            self._start(name)
        self._addresses.wait_for_https()

    def _kill(self, name: str) -> None:
        self.services.pop(name).kill()


class Addresses:
    """The addresses of the pages, and those on loopback that stand for them."""

    def __init__(self, postgres: Postgres | None) -> None:
        self.postgres = postgres
        self.ports = {name: free_port() for name in ("server", "a", "b", "c")}
        self.http, self.https = free_port(), free_port()
        machines = {"10.0.0.11": "a", "10.0.0.12": "b", "10.0.0.13": "c"}
        self._replacements = [
            (f"https://{HOST}", f"https://localhost:{self.https}"),
            (f"http://{HOST}", f"http://localhost:{self.http}"),
            ("listen 80;", f"listen 127.0.0.1:{self.http};"),
            ("listen 443 ", f"listen 127.0.0.1:{self.https} "),
            *((f"{address}:8642", f"127.0.0.1:{self.ports[name]}") for address, name in machines.items()),
            # To Palaver, this is a name and not a loopback address: without a key, it refuses to start.
            *((address, "127.1") for address in machines),
            ("10.0.0.0/24", "127.0.0.1/32"),
            ("10.0.0.20", "127.0.0.1"),
            ("platform.node()", "__import__('os').environ['HOSTNAME']"),
            # The page's run of a minute.
            ("sleep(1)", "sleep(0.15)"),
        ]
        if postgres is not None:
            self._replacements += [
                ("@10.0.0.10/", f"@127.0.0.1:{postgres.port}/"),
                ("10.0.0.10", "127.0.0.1"),
            ]

    def replace(self, source: str, *, port: int | None) -> str:
        for shown, actual in self._replacements:
            source = source.replace(shown, actual)
        return source.replace("127.0.0.1:8642", f"127.0.0.1:{port}") if port else source

    def wait_for_https(self) -> None:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.https), timeout=1):
                return
            time.sleep(0.02)
        raise AssertionError("nginx does not listen")

    def restore(self, output: str) -> str:
        """Return an output with the addresses of the page."""
        for port in self.ports.values():
            output = output.replace(f"127.0.0.1:{port}", "127.0.0.1:8642")
        if self.postgres is not None:
            output = output.replace(f"127.0.0.1:{self.postgres.port}", "10.0.0.10")
        return output


class Deployment:
    """The machines of a page. Use as a context manager; everything is stopped at its end."""

    def __init__(self, folder: Path, postgres: Postgres | None = None) -> None:
        self.addresses = Addresses(postgres)
        self.machines: dict[str, Machine] = {}
        self.secrets: list[str] = []
        """The API keys that were printed."""
        self._folder = folder
        self.terminal_output = ""
        """What the second terminal printed."""
        self._terminal: Terminal | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def follow(self, page: str, *, machines: Collection[str] = ()) -> None:
        """Do what a page says, or only what it says about some machines.

        Raises AssertionError with the line of the page where it does not work.
        """
        text = (DOCS / page).read_text("utf-8")
        lines = text.splitlines()
        output = ""
        shown_by: Machine | None = None
        for block in read_blocks(text):
            place = f"docs/{page}:{block.line}"
            is_other = machines and block.machine and not set(block.machine.split()) <= set(machines)
            if block.action == "not run" or is_other:
                shown_by = None
                continue
            if block.language == "text" and lines[block.line - 3] == OUTPUT_MARK:
                assert self._terminal, place
                self.terminal_output = self._terminal.wait(place)
                self._check_output(block.source, self.terminal_output, self.machine(YOU), place)
            elif block.language == "text" and not block.action and block.follows_directly and shown_by:
                self._check_output(block.source, output, shown_by, place)
            shown_by = None
            for machine in self._machines_of(block, place):
                if block.action == "file":
                    machine.write(block.value, block.source)
                elif block.machine == SECOND_TERMINAL:
                    self._terminal = Terminal(machine, self._with_secret(block.source))
                    self._stack.callback(self._terminal.close)
                else:
                    output, shown_by = self._run(machine, block.source, place), machine

    def client(self, name: str = "") -> httpx.Client:
        """Return a client with the admin key that calls nginx, or the server on a machine."""
        port = self.addresses.ports.get(name)
        return httpx.Client(
            base_url=f"http://127.0.0.1:{port}" if port else f"https://localhost:{self.addresses.https}",
            headers={"authorization": f"Bearer {self.secrets[0]}"},
            verify=ssl.create_default_context(cafile=self._certificate()),
            timeout=30,
            trust_env=False,
        )

    def machine(self, name: str) -> Machine:
        if name not in self.machines:
            self.machines[name] = Machine(self._folder, name, self.addresses, self._environment(name))
            self._stack.callback(self.machines[name].close)
        return self.machines[name]

    def _machines_of(self, block: Block, place: str) -> Iterator[Machine]:
        match block.machine:
            case "":
                assert block.language != "sh", f"{place}: on which machine?"
                assert not block.action, f"{place}: on which machine?"
            case target if target == SECOND_TERMINAL:
                yield self.machine(YOU)
            case target if target == MACHINE_IN_OUTPUT:
                assert self._terminal, place
                yield self.machine(self._terminal.find(r"\bmachine-(\w)\b", place))
            case names:
                yield from map(self.machine, names.split())

    def _run(self, machine: Machine, source: str, place: str) -> str:
        """Run the commands of a block; return the output of the last ones."""
        output = ""
        for is_systemctl, commands in _command_groups(self._with_secret(source)):
            if is_systemctl:
                machine.systemctl(shlex.split(commands)[1:], place)
                continue
            process = machine.start_shell(machine.localize(commands))
            try:
                output, _ = process.communicate(timeout=COMMAND_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
            assert process.returncode == 0, f"{place}: exit code {process.returncode}\n{output}\n{self._logs()}"
            self.secrets += _SECRET.findall(output)
        return output

    def _check_output(self, expected: str, output: str, machine: Machine, place: str) -> None:
        actual = _SECRET.sub("plv_…", machine.as_shown(output))
        assert output_matches(expected, actual), f"{place}: expected\n{expected}\nactual\n{actual}\n{self._logs()}"

    def _with_secret(self, source: str) -> str:
        return source.replace("plv_…", self.secrets[-1]) if self.secrets else source

    def _environment(self, name: str) -> dict[str, str]:
        if name == YOU:
            return dict.fromkeys(("SSL_CERT_FILE", "CURL_CA_BUNDLE"), str(self._certificate()))
        # One process per machine, and short heartbeats: the page's dead machine is noticed in half a minute.
        values = {"PALAVER_WORKERS": "1", "PALAVER_HEARTBEAT_SECONDS": "1", "HOSTNAME": f"machine-{name}"}
        if name in self.addresses.ports:
            values["PALAVER_PORT"] = str(self.addresses.ports[name])
        if self.addresses.postgres is not None and name == "database":
            url = urlsplit(self.addresses.postgres.url())
            values |= {"PGHOST": "127.0.0.1", "PGPORT": str(url.port), "PGPASSWORD": url.password or ""}
            values["PATH"] = f"{Path(sys.executable).parent}:{programs()}:{os.environ['PATH']}"
        return values

    def _certificate(self) -> Path:
        [path] = self._folder.glob("*/etc/letsencrypt/live/*/fullchain.pem")
        return path

    def _logs(self) -> str:
        paths = sorted(self._folder.glob("*/*.log"))
        return "\n".join(f"{path.parent.name}/{path.name}: {path.read_text('utf-8')[-1500:]}" for path in paths)


class Terminal:
    """Commands that run while the page continues."""

    def __init__(self, machine: Machine, commands: str) -> None:
        self._process = machine.start_shell(machine.localize(commands))
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def find(self, pattern: str, place: str) -> str:
        """Return the first group of the pattern once it occurs in the output."""
        end = time.monotonic() + OUTPUT_TIMEOUT_S
        while (match := re.search(pattern, "".join(self._lines))) is None:
            assert time.monotonic() < end, f"{place}: {''.join(self._lines)}"
            time.sleep(0.05)
        return match[1]

    def wait(self, place: str) -> str:
        self._reader.join(OUTPUT_TIMEOUT_S)
        output = "".join(self._lines)
        assert not self._reader.is_alive(), f"{place}: has not ended: {output}"
        assert self._process.wait() == 0, f"{place}: {output}"
        return output

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                self._lines.append(line)


def _command_groups(source: str) -> Iterator[tuple[bool, str]]:
    """Yield calls of systemctl one by one, and the commands between them together."""
    group: list[str] = []
    for line in re.sub(r"\\\n", "\0", source).splitlines():
        command = line.replace("\0", "\\\n")
        if not command.startswith("systemctl "):
            group.append(command)
            continue
        if group:
            yield False, "\n".join(group)
        group = []
        yield True, command
    if group:
        yield False, "\n".join(group)
