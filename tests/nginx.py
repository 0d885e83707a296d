"""nginx for the tests of the deployment guides.

`python -m tests.nginx install` installs it if needed; without it, those tests are skipped.
"""

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from tests import debian

_POLICY = Path("/usr/sbin/policy-rc.d")
"""Debian asks this program whether a package may start its service."""


class Unavailable(Exception):
    """This machine has no nginx; the message says what to install."""

    def __init__(self, why: str = "") -> None:
        super().__init__(f'No nginx here{why}: install the package "nginx", or put it on the PATH.')


def program() -> str:
    """Return the path of nginx."""
    if path := shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin"):
        return path
    raise Unavailable


def install() -> None:
    """Install nginx if there is none, without starting it; possible on Debian as root."""
    with suppress(Unavailable):
        program()
        return
    sys.stderr.write("Installing nginx for the tests.\n")
    is_new_policy = os.geteuid() == 0 and _POLICY.parent.is_dir() and not _POLICY.exists()
    if is_new_policy:
        _POLICY.write_text("#!/bin/sh\nexit 101\n", "utf-8")
        _POLICY.chmod(0o755)
    try:
        debian.install("nginx")
    except debian.NotInstalled as error:
        raise Unavailable(str(error)) from error
    finally:
        if is_new_policy:
            _POLICY.unlink()


def main(arguments: list[str]) -> str | None:
    """Install nginx if there is none."""
    if arguments != ["install"]:
        return "usage: python -m tests.nginx install"
    try:
        install()
    except Unavailable as error:
        sys.stderr.write(f"{error} Until then the tests that need it are skipped.\n")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
