"""Which registry npm would ask for OpenFn's packages, found as npm finds it.

A registry for the scope `@openfn` goes before the one for all; the environment before the `.npmrc` of the working
folder, and that before the user's. What remains (npm's global file, and its default) only npm itself knows: if it is
installed, it is asked. Nothing but the address is taken from any of these.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_KEYS = ("@openfn:registry", "registry")
_PREFIX = "npm_config_"
_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_PATIENCE = 3.0


def users_registry() -> str | None:
    """The address for this process: that of its user, in its folder."""
    return registry(os.environ, folder=Path.cwd(), home=Path.home())


def registry(env: Mapping[str, str], *, folder: Path, home: Path) -> str | None:
    """The registry's address; nothing where none is configured and there is no npm to ask."""
    environment = {
        name[len(_PREFIX) :].lower(): value for name, value in env.items() if name.lower().startswith(_PREFIX) and value
    }
    users = Path(environment.get("userconfig") or home / ".npmrc")
    layers = [environment, _file(folder / ".npmrc", env), _file(users, env)]
    for key in _KEYS:
        for layer in layers:
            if address := usable(layer.get(key)):
                return address
    return usable(_told_by_npm(env))


def usable(address: str | None) -> str | None:
    """An address without the stroke at its end, if it is one that we can ask."""
    address = (address or "").strip().rstrip("/")
    return address if address.startswith(("http://", "https://")) else None


def _file(path: Path, env: Mapping[str, str]) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return {}
    told: dict[str, str] = {}
    for line in lines:
        if line.strip().startswith("["):
            break  # A section: npm has none, and what is in one is not for it.
        key, _, value = line.partition("=")
        if key.strip() in _KEYS:
            told[key.strip()] = _VARIABLE.sub(lambda name: env.get(name[1], ""), value.strip().strip("\"'"))
    return told


def _told_by_npm(env: Mapping[str, str]) -> str | None:
    npm = shutil.which("npm", path=env.get("PATH", ""))
    if npm is None:
        return None
    try:
        told = subprocess.run(
            [npm, "config", "get", "registry"],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.decode(errors="replace")
