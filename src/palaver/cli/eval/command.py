"""palaver eval: run a test set over a workflow, score the answers, and fail if a gate does not pass."""

import asyncio
import logging
import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from palaver.cli.database import database_url
from palaver.cli.options import db_option
from palaver.cli.worker import hold_worker_lock
from palaver.cli.workflow_lookup import find_workflow, is_target, is_url
from palaver.core import json
from palaver.core.json import decode_struct
from palaver.errors import InvalidValue, PalaverError, RequestError
from palaver.evaluation.plan.request import WantedEvaluator, WantedMap, WantedVariant
from palaver.outbound import printable
from palaver.storage.paths import MEMORY_URL

if TYPE_CHECKING:
    from palaver.cli.eval.runner import EvalOutcome, EvalRequest
    from palaver.discovery.registry import Registry
    from palaver.evaluation.results.export.report import Report
    from palaver.workflows.workflow import Workflow


_MAX_FILE_BYTES = 1024 * 1024
_KEY_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_MAPPED_FIELDS = ("messages", "history", "script", "expected")


def parse_evaluator(text: str) -> WantedEvaluator:
    """Parse `exact_match`, `regex:{"pattern": "^A"}` or `starts=regex:{…}`: optional name, key, parameters."""
    head, colon, parameters = text.partition(":{")
    name, equals, key = head.rpartition("=")
    if not _KEY_PATTERN.fullmatch(key) or (equals and not name):
        raise click.BadParameter(f'{text[:80]!r} is no evaluator: write KEY, KEY:{{"parameter": …}} or NAME=KEY:{{…}}.')
    parsed = _parse_object("{" + parameters, f"--evaluator {key}") if colon else {}
    return WantedEvaluator(key=key, name=name or None, parameters=parsed)


def read_agenta_file(path: str) -> list[WantedEvaluator]:
    """Read Agenta's evaluators from a file; parts that can't be converted are reported."""
    from palaver.evaluation.agenta import import_evaluators

    document = json.decode_or_text(_read_text(Path(path)))
    items = import_evaluators(document)
    for item in items:
        for note in item.notes:
            click.echo(f"{printable(item.name)}: {printable(note, 500)}", err=True)
    return [item.evaluator for item in items if item.evaluator is not None]


def parse_variant(text: str, workflow: str) -> WantedVariant:
    """Parse `short:params.json` or `short:{…}` with parameters, or `short` or `short:3`, a stored variant."""
    name, colon, value = text.partition(":")
    if not name:
        raise click.BadParameter(f"{text[:80]!r} is no variant: write NAME:FILE.json, NAME:{{…}}, NAME or NAME:3.")
    if not colon or (value.isascii() and value.isdecimal()):
        return WantedVariant(workflow=workflow, variant=text)
    raw = value if value.startswith("{") else _read_text(Path(value))
    return WantedVariant(name=name, workflow=workflow, parameters=_parse_object(raw, f"--variant {name}"))


def parse_column_map(texts: tuple[str, ...]) -> WantedMap:
    """Parse `messages=question`, `expected=answer`, `subject=topic`; an empty column unsets a field."""
    document: dict[str, Any] = {}
    for text in texts:
        field, equals, column = text.partition("=")
        if not equals or not field:
            raise click.BadParameter(f"{text[:80]!r} says of no column where it goes: write messages=COLUMN.")
        if field in _MAPPED_FIELDS:
            document[field] = column or None
        else:
            document.setdefault("inputs", {})[field.removeprefix("inputs.")] = column
    return decode_struct(document, WantedMap)


def _parse_object(text: str, option: str) -> dict[str, Any]:
    try:
        value = json.decode(text.encode())
    except PalaverError as error:
        raise click.BadParameter(f"{option}: {error.message}") from None
    if not isinstance(value, dict):
        raise click.BadParameter(f"{option}: parameters are a JSON object.")
    return cast("dict[str, Any]", value)


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise InvalidValue(f"{path} is larger than {_MAX_FILE_BYTES} bytes.")
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise click.BadParameter(f"{path} cannot be read: {reason}.") from None


_file_type = click.Path(dir_okay=False, writable=True)


@click.command()
@click.argument("target", required=False)
@click.argument("testset", required=False)
@click.option("-e", "--evaluator", multiple=True, metavar="KEY[:JSON]", help="What scores the answers; any number.")
@click.option("--agenta", type=click.Path(dir_okay=False), metavar="FILE", help="Evaluators of Agenta's, as JSON.")
@click.option("--evaluators", is_flag=True, help="List what can score: keys, titles and what each needs.")
@click.option("--variant", multiple=True, metavar="NAME:FILE", help="Parameters to run with; any number.")
@click.option("--map", "columns", multiple=True, metavar="WHAT=COLUMN", help="Which column goes where.")
@click.option("--repeats", type=click.IntRange(1, 100), default=1, help="How often each row is asked (1).")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="The first N rows only.")
@click.option("--sample", type=click.IntRange(1), metavar="N", help="N rows drawn at random.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Another sample; the same for the same number (0).")
@click.option("--types", type=click.Choice(["auto", "text"]), default="auto", help="How the cells of a CSV are read.")
@click.option("--concurrency", type=click.IntRange(1, 1_000), default=10, help="Calls at once (10).")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=60, help="Seconds of one call (60).")
@click.option("--retries", type=click.IntRange(0, 20), default=2, help="How often a call is tried again (2).")
@click.option("--max-cost", type=click.FloatRange(0, min_open=True), help="US dollars; then the rest is cancelled.")
@click.option("--max-errors", type=click.FloatRange(0, 1), default=1.0, help="Share of cells that may fail (1).")
@click.option("--name", default="", help="What it is called.")
@click.option("--compare", metavar="RUN|last", help="An earlier evaluation, or the last one of this test set.")
@click.option("--fail-under", multiple=True, metavar="[NAME=]RATE", help="Fail below this share of passes.")
@click.option("--max-regressions", type=click.IntRange(0), metavar="N", help="Fail if more rows pass no longer.")
@click.option("--fail-on", type=click.Choice(["worse"]), help="Fail if the comparison says so for sure.")
@click.option("--strict", is_flag=True, help="Gates look at the bad end of the interval.")
@click.option("--junit", type=_file_type, help="Write the results for a build server.")
@click.option("--markdown", type=_file_type, help="Write a summary for a comment.")
@click.option("--html", type=_file_type, help="Write a page that opens from disk.")
@click.option("--csv", type=_file_type, help="Write a line for each cell and evaluator.")
@click.option("--jsonl", type=_file_type, help="Write everything.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@db_option
def command(target: str | None, testset: str | None, **flags: Any) -> int:
    """Run TESTSET over the workflow TARGET and score its answers. No server is needed.

    TARGET is a file, module:name, a URL, or the name of an installed workflow. TESTSET is a file (CSV, JSON, JSONL or
    Parquet), a stored test set, or one that an installed package brings. Without --db nothing is stored, unless
    something stored is asked for.

    Exit code 0: all gates passed; 1: one did not, and is named; 2: it could not be run.

    \b
    Examples:
      palaver eval app.py questions.csv --evaluator exact_match
      palaver eval app.py:tutor questions.jsonl -e contains -e 'regex:{"pattern": "^A"}' --repeats 3
      palaver eval app.py questions.jsonl -e exact_match --variant base:base.json --variant 'new:{"style": "short"}'
      palaver eval app.py questions.jsonl -e exact_match --compare last --max-regressions 0 --junit results.xml
      palaver eval app.py questions.csv -e levenshtein --map messages=question --fail-under levenshtein=0.8 --strict
    """
    try:
        return _list_evaluators(target) if flags["evaluators"] else _evaluate(target, testset, flags)
    except PalaverError as error:
        pointer = error.pointer if isinstance(error, RequestError) else None
        hint = " Here: --map WHAT=COLUMN." if pointer is not None and pointer.startswith("/map/") else ""
        click.echo(f"error: {printable(error.message, 2000)}{hint}", err=True)
        return 2


def _evaluate(target: str | None, testset: str | None, flags: Mapping[str, Any]) -> int:
    if target is None or testset is None:
        raise click.UsageError("Name a TARGET and a TESTSET.")
    if not flags["evaluator"] and flags["agenta"] is None:
        raise click.UsageError("Name at least one --evaluator; --evaluators lists them.")
    registry, workflow = _load_registry(target)
    request = _build_request(workflow, testset, flags)
    is_stored = (
        flags["db"] is not None
        or flags["compare"] is not None
        or request.file is None
        or any(variant.variant is not None for variant in request.request.variants)
    )
    url = database_url(flags["db"]) if is_stored else MEMORY_URL
    with hold_worker_lock(url):
        outcome = asyncio.run(_run(url, registry, request, flags))
    return _print_outcome(outcome, flags)


def _print_outcome(outcome: "EvalOutcome", flags: Mapping[str, Any]) -> int:
    from palaver.cli.eval import report as eval_report

    if flags["as_json"]:
        click.echo(eval_report.encode_outcome(outcome))
    else:
        eval_report.print_outcome(outcome)
    eval_report.print_failed_gates(outcome.failed)
    if outcome.evaluation.state == "cancelled":
        return 130
    if outcome.evaluation.state in ("queued", "running"):  # The database became unavailable.
        return 2
    return 1 if outcome.failed else 2 if outcome.evaluation.state == "failed" else 0


# Request


def _load_registry(target: str) -> "tuple[Registry, Workflow]":
    from palaver.discovery.registry import Registry
    from palaver.discovery.workflow_loader import load_evaluators, load_modules_of

    workflow = find_workflow(target)
    if not is_target(target) or is_url(target):
        return Registry([workflow]), workflow
    # Other workflows of the file may be judges or simulated users.
    siblings = {sibling.description.name: sibling for sibling in load_modules_of(target)}
    siblings.pop(workflow.description.name, None)
    return Registry([workflow, *siblings.values()], evaluators=load_evaluators([target])), workflow


def _build_request(workflow: "Workflow", testset: str, flags: Mapping[str, Any]) -> "EvalRequest":
    from palaver.cli.eval.runner import EvalRequest, find_file
    from palaver.evaluation.plan.request import Limits, NewEvaluation, WantedRows, WantedTestset
    from palaver.evaluation.results.gates import Gates, parse_fail_under

    name = workflow.description.name
    min_rate, min_rates = parse_fail_under(flags["fail_under"])
    has_comparison = flags["compare"] is not None or len(flags["variant"]) > 1
    if not has_comparison and (flags["max_regressions"] is not None or flags["fail_on"]):
        raise click.UsageError("--max-regressions and --fail-on need --compare, or several variants.")
    has_row_options = flags["limit"] is not None or flags["sample"] is not None
    rows = WantedRows(sample=flags["sample"], seed=flags["seed"], limit=flags["limit"]) if has_row_options else None
    request = NewEvaluation(
        name=flags["name"],
        testset=WantedTestset(id="", rows=rows),
        variants=tuple(parse_variant(text, name) for text in flags["variant"]) or (WantedVariant(workflow=name),),
        evaluators=(
            *(parse_evaluator(text) for text in flags["evaluator"]),
            *(read_agenta_file(flags["agenta"]) if flags["agenta"] is not None else ()),
        ),
        map=parse_column_map(flags["columns"]),
        repeats=flags["repeats"],
        limits=Limits(
            concurrency=flags["concurrency"],
            timeout=flags["timeout"],
            retries=flags["retries"],
            max_cost=flags["max_cost"],
            max_errors=flags["max_errors"],
        ),
    )
    return EvalRequest(
        request=request,
        testset=testset,
        file=find_file(testset),
        types=flags["types"],
        compare=flags["compare"],
        gates=Gates(
            minimum=min_rate,
            fail_under=min_rates,
            max_regressions=flags["max_regressions"],
            fail_on_worse=flags["fail_on"] == "worse",
            strict=flags["strict"],
        ),
    )


# Run


async def _run(url: str, registry: "Registry", request: "EvalRequest", flags: Mapping[str, Any]) -> "EvalOutcome":
    from palaver.cli.eval import runner as eval_runner  # Imported late: --help must not wait for SQLAlchemy.
    from palaver.server.settings import read_settings
    from palaver.storage.database import open_database

    # Runs in an in-memory database can't be looked at later.
    settings_flags = {"record": "off", "trace_content": "off"} if url == MEMORY_URL else {}
    settings, _ = read_settings(flags=settings_flags, env=os.environ, folder=Path.cwd())
    # The user wrote the workflow, and may see its errors; each failure is printed once, at the end.
    settings = msgspec.structs.replace(settings, debug=True)
    database = open_database(url)
    try:
        with _silence_logger("palaver.run"):
            return await eval_runner.run_evaluation(
                database, registry, settings, request, lambda report: _write_reports(report, flags)
            )
    finally:
        await database.close()


@contextmanager
def _silence_logger(name: str) -> Generator[None]:
    """Silence a logger, except for critical records."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _write_reports(report: "Report", flags: Mapping[str, Any]) -> None:
    from palaver.evaluation.results.export.formats import EXPORT_FORMATS

    for format_name, (_, _, write) in EXPORT_FORMATS.items():
        if flags[format_name] is not None:
            try:
                with Path(flags[format_name]).open("wb") as file:
                    file.writelines(write(report))
            except OSError as error:
                raise PalaverError(f"{flags[format_name]} cannot be written: {error.strerror}.") from None


# Evaluators


def _list_evaluators(target: str | None) -> int:
    from palaver.discovery.registry import Registry
    from palaver.evaluation.registry import EvaluatorRegistry

    registry = _load_registry(target)[0] if target is not None else Registry()
    evaluators = EvaluatorRegistry(registry.evaluators, served=registry.names)
    rows = [(evaluator.key, evaluator.title, ", ".join(sorted(evaluator.needs))) for evaluator in evaluators]
    width, title_width = max(len(key) for key, _, _ in rows), max(len(title) for _, title, _ in rows)
    for key, title, needs in rows:
        click.echo(f"{key.ljust(width)}  {title.ljust(title_width)}  {needs and f'needs {needs}'}".rstrip())
    return 0
