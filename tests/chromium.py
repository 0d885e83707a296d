"""A real browser for tests/e2e and benchmarks/parts/page.py: Debian's chromium, driven by Playwright.

`python -m tests.chromium install` makes sure that it is there; without it, the tests that need it are skipped.
"""

import os
import shutil
import sys

from tests import debian

NAMES = ("chromium", "chromium-browser", "google-chrome")

# What a browser would otherwise do by itself: ask its maker for news, and take its sandbox from a container that has
# none to give.
OPTIONS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-default-browser-check",
    "--no-first-run",
    *(["--no-sandbox"] if sys.platform == "linux" and os.geteuid() == 0 else []),
]

# Every other name leads nowhere, so that a page which needs another host is seen to fail without it.
LOOPBACK_ONLY = [
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
]


class Unavailable(Exception):
    """This machine has no Chromium; the message says what to install."""

    def __init__(self, why: str = "") -> None:
        super().__init__(f'No Chromium here{why}: install the package "chromium", or put it on the PATH.')


def program() -> str:
    """The browser's path."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    raise Unavailable


def install() -> None:
    """Make sure that there is a browser, which on Debian we may do as root."""
    try:
        program()
    except Unavailable:
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise
        sys.stderr.write("Installing Chromium for the tests, which takes up to a minute.\n")
        try:
            debian.install("chromium")
        except debian.NotInstalled as error:
            raise Unavailable(str(error)) from error
        program()


def main(arguments: list[str]) -> str | None:
    """Make sure that there is a browser; without one, the tests that need it are skipped."""
    if arguments != ["install"]:
        return "usage: python -m tests.chromium install"
    try:
        install()
    except Unavailable as error:
        sys.stderr.write(f"{error} Until then the tests that need it are skipped.\n")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
