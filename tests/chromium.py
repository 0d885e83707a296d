"""Chromium for tests/e2e and benchmarks/parts/page.py, driven by Playwright.

`python -m tests.chromium install` installs it if needed; without it, the tests that need it are skipped.
"""

import os
import shutil
import sys

from tests import debian

NAMES = ("chromium", "chromium-browser", "google-chrome")

# No background requests; and no sandbox as root, because Chromium refuses to start with one.
OPTIONS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-default-browser-check",
    "--no-first-run",
    *(["--no-sandbox"] if sys.platform == "linux" and os.geteuid() == 0 else []),
]

# Other host names don't resolve, so that a page that needs another host fails visibly.
LOOPBACK_ONLY = [
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
]


class Unavailable(Exception):
    """This machine has no Chromium; the message says what to install."""

    def __init__(self, why: str = "") -> None:
        super().__init__(f'No Chromium here{why}: install the package "chromium", or put it on the PATH.')


def program() -> str:
    """Return the browser's path."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    raise Unavailable


def install() -> None:
    """Install a browser if there is none; possible on Debian as root."""
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
    """Install a browser if there is none."""
    if arguments != ["install"]:
        return "usage: python -m tests.chromium install"
    try:
        install()
    except Unavailable as error:
        sys.stderr.write(f"{error} Until then the tests that need it are skipped.\n")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
