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
from palaver.cli.workflow_lookup import require_valid_url
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
    require_valid_url(url)
    target = parse_target(url)
    if not target.is_loopback and not is_mine:
        advice = "Only probe servers that you own. If it is yours, pass --yes-it-is-mine."
        raise click.UsageError(f"{target.host} is not this machine. {advice}")
    key = _read_key(key_file)
    if key is not None and target.scheme == "http" and not target.is_loopback:
        raise click.UsageError("Refusing to send a key over plain HTTP. Use https://… or pass no key.")
    server, findings = asyncio.run(_run_attacks(target, key))
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
            raise click.UsageError(f"No key found in {source}.")
    if not _KEY_CHARS.fullmatch(key):
        raise click.UsageError(f"Invalid key in {source}: expected one word of printable ASCII characters.")
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
        raise PalaverError(f"{target.authority} rejected the key as invalid or expired. Use another key or none.")
    match session.document:
        case {"scopes": [*scopes]}:
            return server._replace(scopes=frozenset(map(str, scopes)))
        case _:
            return server


# Output. `run_attack` has made the text of the server printable.


def _print_findings(url: str, server: ProbedServer, findings: Sequence[Finding]) -> None:
    description = f"Palaver {printable(server.version, 40)}" if server.version else "not identified as Palaver"
    key_description = (
        "authenticated" if server.key else "key required, none given" if server.wants_key else "no keys required"
    )
    click.echo(f"{printable(url)}: {description}, {key_description}\n")
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        mark, colour = _SIGNS[finding.verdict]
        sign = click.style(f"{mark} {finding.name:<{width}}", fg=colour)
        click.echo(f"{sign}  {finding.says}")
        if finding.verdict == "broken":
            click.echo(f"    request: {finding.sent}\n    response: {finding.came}")
        elif finding.verdict == "not applicable":
            click.echo(f"    skipped: {finding.came}")
    click.echo(f"\n{_summarize(findings)}")


def _summarize(findings: Sequence[Finding]) -> str:
    held, broken, skipped = (
        sum(finding.verdict == verdict for finding in findings) for verdict in ("held", "broken", "not applicable")
    )
    skipped_text = f", {skipped} skipped" if skipped else ""
    return f"{held} of {len(findings)} checks passed, {broken} failed{skipped_text}."


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
