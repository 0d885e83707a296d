"""Programs that tests need beside Python's, from the packages of Debian and Ubuntu; only root may install them."""

import os
import shutil
import subprocess


class NotInstalled(Exception):
    """apt-get could not install the package, or we may not ask it to."""


def install(package: str) -> None:
    """Install a package with what it needs."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NotInstalled
    try:
        # Fetching may be cut short by a timeout, unpacking should not: so they are two steps.
        _apt("update", seconds=180)
        _apt("install", "--download-only", package, seconds=300)
        _apt("install", "--no-download", package, seconds=600)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(", and apt-get could not install it") from error


def _apt(command: str, *arguments: str, seconds: float) -> None:
    options = ["--yes", "--no-install-recommends"] if command == "install" else []
    limits = ["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=30", "-o", "DPkg::Lock::Timeout=60"]
    subprocess.run(
        ["apt-get", "--quiet=2", *limits, command, *options, *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=seconds,
        # Old lists may be good enough to install from.
        check=command != "update",
    )
