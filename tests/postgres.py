"""A real PostgreSQL for tests and benchmarks: a cluster of its own on a free port of loopback, always ended.

`python -m tests.postgres install` makes sure that the server's programs are there; `with Postgres() as postgres:` runs
one. Tests take it as the fixtures `postgres` (one for the session) and `postgres_url` (an empty database for the test).
"""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests import debian

DEBIAN_PROGRAMS = Path("/usr/lib/postgresql")
"""Where Debian keeps the programs of each version: 15/bin, 17/bin …; they are on nobody's PATH."""

SHARED_MEMORY = Path("/dev/shm")
"""Where Linux keeps files in memory: making and dropping a database there takes a third of the time."""

# Speed instead of safety from power cuts. But not `synchronous_commit=off`: a commit has to outlive kill -9 of the
# server, as it does for everybody, or tests of what is lost would find what nobody else loses.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "256MB",
    "jit": "off",
}

# When nobody holds the other end of its input any more, ends the server and removes its folder.
WATCHDOG_SCRIPT = """
cat > /dev/null
kill -QUIT "$1"
for _ in 1 2 3 4 5 6 7 8 9; do [ -e "$2/data/postmaster.pid" ] || break; sleep 0.2; done
rm -rf -- "$2"
"""


class Unavailable(Exception):
    """This machine has no PostgreSQL server; the message says what to install."""

    def __init__(self, why: str = "") -> None:
        advice = 'install the package "postgresql" (version 13 or newer), or put its initdb and postgres on the PATH.'
        super().__init__(f"No PostgreSQL server here{why}: {advice}")


def programs() -> Path:
    """The folder that holds `initdb` and `postgres`: from the PATH, else the newest that Debian installed."""
    named = shutil.which("initdb")
    found = [Path(named).resolve().parent] if named else []
    found += sorted(DEBIAN_PROGRAMS.glob("[0-9]*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    for folder in found:
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
            return folder
    raise Unavailable


def install() -> Path:
    """Make sure that there is a server, which on Debian we may do as root; it gets no cluster and starts nothing."""
    with suppress(Unavailable):
        return programs()
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Unavailable
    sys.stderr.write("Installing PostgreSQL for the tests, which takes up to a minute.\n")
    # Debian would create a cluster and start it; this file, which it reads while installing, says not to.
    choice = Path("/etc/postgresql-common/createcluster.d/palaver.conf")
    choice.parent.mkdir(parents=True, exist_ok=True)
    choice.write_text("create_main_cluster = false\n", encoding="utf-8")
    try:
        debian.install("postgresql")
    except debian.NotInstalled as error:
        raise Unavailable(str(error)) from error
    finally:
        choice.unlink(missing_ok=True)
    return programs()


class Postgres:
    """One cluster: `with Postgres() as postgres:` makes, starts and finally removes it."""

    port: int
    """Chosen at the first start; the same ever after."""

    def __init__(self) -> None:
        self._programs = programs()
        self._account = _account()
        self._password = secrets.token_hex(16)
        self._folder = Path(tempfile.mkdtemp(prefix="palaver-postgres-", dir=_data_parent()))
        self._server: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._made = 0

    def __enter__(self) -> Self:
        try:
            self._make()
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, name: str = "postgres") -> str:
        """The address of one of its databases, of its administrator."""
        return f"postgresql://palaver:{self._password}@127.0.0.1:{self.port}/{name}"

    def create(self, like: str | None = None) -> str:
        """The address of a new database, empty or a copy; a server that some test left stopped is started."""
        self.start()
        self._made += 1
        name = sql.Identifier(f"palaver_{self._made}")
        if like is None:
            self._do(sql.SQL("CREATE DATABASE {}").format(name))
        else:
            copied = sql.Identifier(_name(like))
            self._do(sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY = file_copy").format(name, copied))
        return self.url(f"palaver_{self._made}")

    def drop(self, url: str) -> None:
        """Remove a database, whoever is still connected to it."""
        self.start()
        self._do(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(_name(url))))

    @property
    def running(self) -> bool:
        """Whether the server's process lives."""
        return self._server is not None and self._server.poll() is None

    def start(self) -> None:
        """Start it on the port it had, with what it held; starting what runs is not an error."""
        # After `kill`, what the server was busy with may hold its memory for a moment.
        end = time.monotonic() + 30
        while not self.running and not self._try():
            self._reap()
            if time.monotonic() > end:
                raise AssertionError(f"PostgreSQL does not start: {self.log()[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End it in good order, which disconnects everybody."""
        self._end(signal.SIGINT)

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """End it as the system does when memory is short: with no time to tidy up."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End it and remove everything."""
        self._end(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """What the server has written so far."""
        path = self._folder / "log"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def _make(self) -> None:
        secret = self._folder / "password"
        secret.write_text(self._password, encoding="utf-8")
        if self._account is not None:
            for path in (self._folder, secret):
                os.chown(path, *self._account)
        options = ["--username=palaver", "--auth=scram-sha-256", f"--pwfile={secret}", "--encoding=UTF8", "--locale=C"]
        known = subprocess.run([self._programs / "initdb", "--help"], capture_output=True, check=True, text=True)
        if "--icu-locale" in known.stdout:
            # Text sorted as on most people's servers, which is not as SQLite does: a query that minds has to say so.
            options += ["--locale-provider=icu", "--icu-locale=en-US"]
        with self._spawn("initdb", *options, "--no-sync") as making:
            making.wait(120)
        assert making.returncode == 0, self.log()

    def _open(self) -> None:
        for _ in range(5):
            self.port = _free_port()
            if self._try():
                return
            self._reap()  # Most likely somebody else took the port.
        raise AssertionError(f"PostgreSQL does not start: {self.log()[-2000:]}")

    def _try(self) -> bool:
        """Whether a server could be started; it answers then."""
        options = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        server = self._server = self._spawn("postgres", "-p", str(self.port), *options)
        # It outlives even a killed parent, which only the end of a pipe tells reliably.
        self._guard = subprocess.Popen(
            ["sh", "-c", WATCHDOG_SCRIPT, "guard", str(server.pid), str(self._folder)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        end = time.monotonic() + 60
        while server.poll() is None:
            with suppress(psycopg.OperationalError):
                self._do(sql.SQL("SELECT 1"))
                return True
            assert time.monotonic() < end, f"PostgreSQL does not answer: {self.log()[-2000:]}"
            time.sleep(0.02)
        return False

    def _end(self, sign: signal.Signals) -> None:
        if self._server is not None and self.running:
            self._server.send_signal(sign)
            self._server.wait(60)
        self._reap()

    def _reap(self) -> None:
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
        self._server = self._guard = None

    def _do(self, statement: sql.SQL | sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=5) as connection:
            connection.execute(statement)

    def _spawn(self, program: str, *options: str) -> "subprocess.Popen[bytes]":
        """Start one of its programs: out of reach of Ctrl-C, of our environment and of folders it may not see."""
        user, group = self._account or (None, None)
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [self._programs / program, "-D", self._folder / "data", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={"PATH": os.defpath},
                start_new_session=True,
                user=user,
                group=group,
                extra_groups=None if group is None else [],
            )


def _name(url: str) -> str:
    """The name of the database at an address."""
    return urlsplit(url).path.removeprefix("/")


def _account() -> tuple[int, int] | None:
    """The user and group that the server runs as when we are root, which it refuses to be."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
    raise Unavailable(" that would run as root; make a user named postgres")


def _data_parent() -> Path | None:
    """Memory, where there is plenty (a container often has only 64 MB), else the usual folder for temporary files."""
    plenty = (
        SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK) and shutil.disk_usage(SHARED_MEMORY).free > 4 << 30
    )
    return SHARED_MEMORY if plenty else None


def _free_port() -> int:
    """A port that stays free while the server is stopped: below those that systems give to outgoing connections."""
    # Not from `random`: two sessions of pytest with one seed would try the same ports.
    for port in secrets.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port on loopback")


def main(arguments: list[str]) -> str | None:
    """Make sure that there is a server; without one, the tests that need it are skipped."""
    if arguments != ["install"]:
        return "usage: python -m tests.postgres install"
    try:
        install()
    except Unavailable as error:
        sys.stderr.write(f"{error} Until then the tests that need it are skipped.\n")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
