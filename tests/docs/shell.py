"""The programs that a block of shell calls, and their arguments: bash runs it, and every program only records its call.

So bash itself handles quotes, pipes, line ends and substitutions. Only `cat`, `date` and bash builtins are executed; a
`cat` of a file that an earlier command of the page would have written is recorded.
"""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which

_RECORDER = r"""
set -o pipefail
PATH=/nowhere
cat() { if [[ $# -gt 0 && ! -e $1 ]]; then note cat "$@"; else /bin/cat "$@"; fi; }
date() { /bin/date "$@"; }
variables() {
    local name
    for name in $(compgen -e PALAVER_); do printf '%s\0' "$name=${!name}"; done
}
note() {
    local to="$NOTES/$EPOCHREALTIME-$BASHPID"
    printf '%s\0' "$@" >"$to.called"
    variables >"$to.environment"
    [[ -p /dev/stdin ]] && /bin/cat >"$to.stdin"
    return 0
}
command_not_found_handle() { note "$@"; }
open() { note open "$@"; }
.() { note . "$@"; }
cd() { note cd "$@"; }
trap 'variables >"$NOTES/exported"' EXIT
"""
_PLACEHOLDER = re.compile(r"<[a-z][a-z ]*>")


@dataclass(frozen=True, kw_only=True)
class ShellCall:
    """A call of a program."""

    program: str
    arguments: tuple[str, ...]
    stdin: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """The variables of Palaver that the page sets."""

    @property
    def is_complete(self) -> bool:
        """Whether it can be run as shown: an ellipsis or <words> are for the reader to fill in."""
        return not any("…" in argument for argument in (*self.arguments, self.stdin))


def calls(source: str, folder: Path, notes: Path, environment: Mapping[str, str] | None = None) -> list[ShellCall]:
    """Return the calls of a block, in order. Raises AssertionError if bash cannot run it.

    `environment` has the variables of Palaver that earlier blocks exported.
    """
    bash = which("bash")
    assert bash, "bash is needed to read the shell blocks of the docs"
    result = subprocess.run(
        [bash, "--noprofile", "--norc", "-c", f"{_RECORDER}\n{_PLACEHOLDER.sub('…', source)}"],
        cwd=folder,
        env={"NOTES": str(notes), "LC_ALL": "C.UTF-8", **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=20,
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return [_read_call(path) for path in sorted(notes.glob("*.called"))]


def exported_variables(notes: Path) -> dict[str, str]:
    """Return the variables of Palaver that a block left to those after it."""
    return _read_variables(notes / "exported")


def _read_call(path: Path) -> ShellCall:
    program, *arguments = path.read_text("utf-8").split("\0")[:-1]
    stdin = path.with_suffix(".stdin")
    return ShellCall(
        program=program,
        arguments=tuple(arguments),
        stdin=stdin.read_text("utf-8") if stdin.exists() else "",
        environment=_read_variables(path.with_suffix(".environment")),
    )


def _read_variables(path: Path) -> dict[str, str]:
    assignments = path.read_text("utf-8").split("\0")[:-1] if path.exists() else []
    return {name: value for name, _, value in (assignment.partition("=") for assignment in assignments)}
