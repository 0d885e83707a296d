"""Install Debian and Ubuntu packages that tests need; requires root."""

import os
import shutil
import subprocess


class NotInstalled(Exception):
    """apt-get failed or may not be used."""


def install(package: str) -> None:
    """Install a package and its dependencies."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NotInstalled
    try:
        # Two steps: a timeout may interrupt the download, but should not interrupt unpacking.
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
        # Old package lists may be sufficient.
        check=command != "update",
    )
