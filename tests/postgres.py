"""A temporary PostgreSQL cluster for tests and benchmarks, on a free port of loopback.

`python -m tests.postgres install` installs the server's programs if needed; `with Postgres() as postgres:` runs a
cluster. Tests use the fixtures `postgres` (one for the session) and `postgres_url` (an empty database for the test).
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
"""Debian's folder of programs by version (15/bin, 17/bin …), which is not on the PATH."""

SHARED_MEMORY = Path("/dev/shm")
"""A file system in memory: creating and dropping a database there takes a third of the time."""

# Fast instead of safe from power failures. But not `synchronous_commit=off`: a commit has to survive kill -9 of the
# server, as in production, for the tests of data loss.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "256MB",
    "jit": "off",
}

# Stops the server and removes its folder when its standard input is closed.
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
    initdb = shutil.which("initdb")
    folders = [Path(initdb).resolve().parent] if initdb else []
    folders += sorted(DEBIAN_PROGRAMS.glob("[0-9]*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    for folder in folders:
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
            return folder
    raise Unavailable


def install() -> Path:
    """Install a server if there is none, without a default cluster; possible on Debian as root."""
    with suppress(Unavailable):
        return programs()
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Unavailable
    sys.stderr.write("Installing PostgreSQL for the tests, which takes up to a minute.\n")
    # Keeps Debian from creating and starting a cluster.
    config = Path("/etc/postgresql-common/createcluster.d/palaver.conf")
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("create_main_cluster = false\n", encoding="utf-8")
    try:
        debian.install("postgresql")
    except debian.NotInstalled as error:
        raise Unavailable(str(error)) from error
    finally:
        config.unlink(missing_ok=True)
    return programs()


class Postgres:
    """A cluster: `with Postgres() as postgres:` creates, starts and finally removes it."""

    port: int
    """Chosen at the first start, and kept."""

    def __init__(self, superuser: str = "palaver") -> None:
        self._superuser = superuser
        self._programs = programs()
        self._account = _account()
        self._password = secrets.token_hex(16)
        self._folder = Path(tempfile.mkdtemp(prefix="palaver-postgres-", dir=_data_parent()))
        self._server: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._database_count = 0

    def __enter__(self) -> Self:
        try:
            self._init_cluster()
            self._start_on_free_port()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, name: str = "postgres") -> str:
        """The administrator's URL of a database."""
        return f"postgresql://{self._superuser}:{self._password}@127.0.0.1:{self.port}/{name}"

    def create(self, like: str | None = None) -> str:
        """Create an empty database or a copy, and return its URL. Starts the server if it was stopped."""
        self.start()
        self._database_count += 1
        name = sql.Identifier(f"palaver_{self._database_count}")
        if like is None:
            self._execute(sql.SQL("CREATE DATABASE {}").format(name))
        else:
            copied = sql.Identifier(_name(like))
            self._execute(sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY = file_copy").format(name, copied))
        return self.url(f"palaver_{self._database_count}")

    def drop(self, url: str) -> None:
        """Drop a database, even with open connections."""
        self.start()
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(_name(url))))

    @property
    def running(self) -> bool:
        return self._server is not None and self._server.poll() is None

    def start(self) -> None:
        """Start the server on the same port with the same data, unless it is running."""
        # After `kill`, remaining backends may hold the shared memory for a moment.
        end = time.monotonic() + 30
        while not self.running and not self._try_start():
            self._reap()
            if time.monotonic() > end:
                raise AssertionError(f"PostgreSQL does not start: {self.log()[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Shut down in order, disconnecting all clients."""
        self._end(signal.SIGINT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self) -> None:
        """Kill the server without any cleanup."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Stop the server and remove its folder."""
        self._end(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        path = self._folder / "log"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def _init_cluster(self) -> None:
        secret = self._folder / "password"
        secret.write_text(self._password, encoding="utf-8")
        if self._account is not None:
            for path in (self._folder, secret):
                os.chown(path, *self._account)
        options = [
            f"--username={self._superuser}",
            "--auth=scram-sha-256",
            f"--pwfile={secret}",
            "--encoding=UTF8",
            "--locale=C",
        ]
        help_text = subprocess.run([self._programs / "initdb", "--help"], capture_output=True, check=True, text=True)
        if "--icu-locale" in help_text.stdout:
            # A common collation that differs from SQLite's, to find queries that depend on it.
            options += ["--locale-provider=icu", "--icu-locale=en-US"]
        with self._spawn("initdb", *options, "--no-sync") as process:
            process.wait(120)
        assert process.returncode == 0, self.log()

    def _start_on_free_port(self) -> None:
        for _ in range(5):
            self.port = _free_port()
            if self._try_start():
                return
            self._reap()  # The port was probably taken.
        raise AssertionError(f"PostgreSQL does not start: {self.log()[-2000:]}")

    def _try_start(self) -> bool:
        """Start the server; return whether it accepts connections."""
        options = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        server = self._server = self._spawn("postgres", "-p", str(self.port), *options)
        # The watchdog survives a killed parent; a closed pipe is the reliable sign of its end.
        self._watchdog = subprocess.Popen(
            ["sh", "-c", WATCHDOG_SCRIPT, "guard", str(server.pid), str(self._folder)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        end = time.monotonic() + 60
        while server.poll() is None:
            with suppress(psycopg.OperationalError):
                self._execute(sql.SQL("SELECT 1"))
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
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
        self._server = self._watchdog = None

    def _execute(self, statement: sql.SQL | sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=5) as connection:
            connection.execute(statement)

    def _spawn(self, program: str, *options: str) -> "subprocess.Popen[bytes]":
        """Start a program in a new session, with a minimal environment, in the cluster's folder."""
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
    """The database name in a URL."""
    return urlsplit(url).path.removeprefix("/")


def _account() -> tuple[int, int] | None:
    """The user and group of the server; it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
    raise Unavailable(" that would run as root; make a user named postgres")


def _data_parent() -> Path | None:
    """Shared memory if it has space (containers often have 64 MB), else None for the default folder."""
    plenty = (
        SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK) and shutil.disk_usage(SHARED_MEMORY).free > 4 << 30
    )
    return SHARED_MEMORY if plenty else None


def _free_port() -> int:
    """A free port below the range of ephemeral ports, so that it stays free while the server is stopped."""
    # Not `random`: two pytest sessions with one seed would try the same ports.
    for port in secrets.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port on loopback")


def main(arguments: list[str]) -> str | None:
    """Install a server if there is none."""
    if arguments != ["install"]:
        return "usage: python -m tests.postgres install"
    try:
        install()
    except Unavailable as error:
        sys.stderr.write(f"{error} Until then the tests that need it are skipped.\n")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
