"""Probe a server: check permission, identify it, run every attack in order, and print the findings."""

import asyncio
import os
import re
from collections.abc import Sequence
from pathlib import Path

import click

from palaver.cli import input_files
from palaver.cli.doctor.checks import check_key_file
from palaver.cli.output import format_json
from palaver.cli.security_probe import access_attacks, content_attacks
from palaver.cli.security_probe.attack import (
    Attack,
    Finding,
    ProbedServer,
    Target,
    Verdict,
    parse_target,
    require_reachable,
    run_attack,
)
from palaver.errors import PalaverError
from palaver.outbound import printable

ATTACKS: Sequence[Attack] = (
    *access_attacks.ORIGIN_ATTACKS,
    *access_attacks.CREDENTIAL_ATTACKS,
    *content_attacks.INJECTION_ATTACKS,
    *content_attacks.BODY_ATTACKS,
    *content_attacks.URL_ATTACKS,
    *content_attacks.DISCLOSURE_ATTACKS,
)
_KEY_CHARS = re.compile(r"[!-~]*")
_SIGNS: dict[Verdict, tuple[str, str]] = {
    "held": ("✓", "green"),
    "broken": ("✗", "red"),
    "not applicable": ("-", "bright_black"),
}


def probe_server(url: str, *, key_file: str | None, is_mine: bool, as_json: bool) -> int:
    """Run all attacks and print the findings. Returns exit code 1 if one succeeded."""
    try:
        target = parse_target(url)
        if not target.is_loopback and not is_mine:
            advice = "Attack no server that is not yours: if it is, say --yes-it-is-mine."
            raise click.UsageError(f"{target.host} is not this machine. {advice}")
        key = _read_key(key_file)
        if key is not None and target.scheme == "http" and not target.is_loopback:
            raise click.UsageError("Over http others could read the key on its way: give https://…, or no key.")
        server, findings = asyncio.run(_run_attacks(target, key))
    except PalaverError as error:  # An unusable URL, an unreachable server, or an invalid key.
        raise click.ClickException(printable(error.message, 500)) from None
    if as_json:
        _print_json(url, server, findings)
    else:
        _print_findings(url, server, findings)
    return 1 if any(finding.verdict == "broken" for finding in findings) else 0


def _read_key(key_file: str | None) -> str | None:
    """Read the key from a file or PALAVER_KEY; never from the command line, which other users can read."""
    if key_file is None:
        source, key = "PALAVER_KEY", os.environ.get("PALAVER_KEY", "").strip()
    else:
        source = "standard input" if key_file == "-" else key_file
        with input_files.open_input(key_file) as file:
            key = file.read(4096).decode("utf-8", "replace").strip()
        if key_file != "-":
            for check in check_key_file(Path(key_file)):
                click.echo(f"warning: {printable(check.line, 500)}", err=True)
        if not key:
            raise click.UsageError(f"There is no key in {source}.")
    if not _KEY_CHARS.fullmatch(key):
        raise click.UsageError(f"What is in {source} is no key: a key is one word of plain letters, digits and signs.")
    return key or None


async def _run_attacks(target: Target, key: str | None) -> tuple[ProbedServer, list[Finding]]:
    await require_reachable(target)
    server = await _identify_server(target, key)
    return server, [await run_attack(attack, server) for attack in ATTACKS]


async def _identify_server(target: Target, key: str | None) -> ProbedServer:
    """Find out whether it is a Palaver server, whether it requires a key, and the scopes of `key`."""
    server = ProbedServer(target)
    reply = await server.send("GET", "/livez")
    match reply.document:
        case {"version": str(version)} if "x-api-version" in reply.headers:
            server = server._replace(version=version)
        case _:
            pass
    session = await server.send("GET", "/api/session")
    if session.status != 401:
        return server._replace(scopes=frozenset({"admin"}))  # The server does not check keys.
    server = server._replace(key=key, wants_key=True)
    if key is None:
        return server
    session = await server.send("GET", "/api/session")
    if session.status == 401:
        raise PalaverError(f"The key is not good at {target.authority}: give another one, or none.")
    match session.document:
        case {"scopes": [*scopes]}:
            return server._replace(scopes=frozenset(map(str, scopes)))
        case _:
            return server


# Output. `run_attack` has made the text of the server printable.


def _print_findings(url: str, server: ProbedServer, findings: Sequence[Finding]) -> None:
    description = (
        f"Palaver {printable(server.version, 40)}" if server.version else "a server that does not say it is a Palaver"
    )
    key_description = (
        "with a key" if server.key else "without a key, which it wants" if server.wants_key else "without keys"
    )
    click.echo(f"{printable(url)}: {description}, {key_description}\n")
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        mark, colour = _SIGNS[finding.verdict]
        sign = click.style(f"{mark} {finding.statement} {finding.name:<{width}}", fg=colour)
        click.echo(f"{sign}  {finding.says}")
        if finding.verdict == "broken":
            click.echo(f"    sent: {finding.sent}\n    came: {finding.came}")
        elif finding.verdict == "not applicable":
            click.echo(f"    not tried: {finding.came}")
    click.echo(f"\n{_summarize(findings)}")


def _summarize(findings: Sequence[Finding]) -> str:
    held, broken, not_tried = (
        sum(finding.verdict == verdict for finding in findings) for verdict in ("held", "broken", "not applicable")
    )
    not_tried_text = f", {not_tried} not tried" if not_tried else ""
    return f"{held} of {len(findings)} held, {broken} broken{not_tried_text}."


def _print_json(url: str, server: ProbedServer, findings: Sequence[Finding]) -> None:
    report = {
        "url": url,
        "palaver": server.version,
        "wants_key": server.wants_key,
        "with_key": server.key is not None,
        "ok": all(finding.verdict != "broken" for finding in findings),
        "checks": findings,
    }
    click.echo(format_json(report))
