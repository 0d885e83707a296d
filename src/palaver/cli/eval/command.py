"""palaver eval: run a test set against a workflow, score the answers, and fail if a gate does not pass."""

import asyncio
import logging
import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from palaver.cli.database import database_failures, database_url
from palaver.cli.options import db_option
from palaver.cli.output import error_reason
from palaver.cli.worker import hold_worker_lock
from palaver.cli.workflow_lookup import find_workflow, is_target, is_url
from palaver.core import json
from palaver.core.json import decode_struct
from palaver.errors import InvalidJson, InvalidValue, NotFound, PalaverError, RequestError, TargetNotFound
from palaver.evaluation.plan.request import ColumnMapInput, EvaluatorInput, VariantInput
from palaver.outbound import printable
from palaver.storage.paths import MEMORY_URL

if TYPE_CHECKING:
    from palaver.cli.eval.runner import EvalOutcome, EvalRequest
    from palaver.discovery.registry import Registry
    from palaver.evaluation.results.export.report import Report
    from palaver.workflows.workflow import Workflow


_MAX_FILE_BYTES = 1024 * 1024
_KEY_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_REFERENCE_POINTER = re.compile(r"/variants/\d+/variant")
_OPTIONS_BY_FIELD = {"map": "--map", "evaluators": "--evaluator", "variants": "--variant"}
_MAPPED_FIELDS = ("messages", "history", "script", "expected")


def parse_evaluator(text: str) -> EvaluatorInput:
    """Parse `exact_match`, `regex:{"pattern": "^A"}` or `starts=regex:{…}`: optional name, key, parameters."""
    head, colon, parameters = text.partition(":{")
    name, equals, key = head.rpartition("=")
    if not _KEY_PATTERN.fullmatch(key) or (equals and not name):
        expected = 'KEY, KEY:{"parameter": …} or NAME=KEY:{…}'
        raise click.UsageError(f"Invalid --evaluator {text[:80]!r}: expected {expected}.")
    parsed = _parse_object("{" + parameters, f"--evaluator {key}") if colon else {}
    return EvaluatorInput(key=key, name=name or None, parameters=parsed)


def read_agenta_file(path: str) -> list[EvaluatorInput]:
    """Read Agenta's evaluators from a file; parts that can't be converted are reported."""
    from palaver.evaluation.agenta import import_evaluators

    document = json.decode_or_text(_read_text(Path(path)))
    items = import_evaluators(document)
    for item in items:
        for note in item.notes:
            click.echo(f"warning: {printable(item.name)}: {printable(note, 500)}", err=True)
    return [item.evaluator for item in items if item.evaluator is not None]


def parse_variant(text: str, workflow: str) -> VariantInput:
    """Parse `short:params.json` or `short:{…}` with parameters, or `short` or `short:3`, a stored variant."""
    name, colon, value = text.partition(":")
    if not name:
        raise click.UsageError(
            f"Invalid --variant {text[:80]!r}: expected NAME:FILE.json, NAME:{{…}}, NAME or NAME:VERSION."
        )
    if not colon or (value.isascii() and value.isdecimal()):
        return VariantInput(workflow=workflow, variant=text)
    raw = value if value.startswith("{") else _read_text(Path(value))
    return VariantInput(name=name, workflow=workflow, parameters=_parse_object(raw, f"--variant {name}"))


def parse_column_map(texts: tuple[str, ...]) -> ColumnMapInput:
    """Parse `messages=question`, `expected=answer`, `subject=topic`; an empty column unsets a field."""
    document: dict[str, Any] = {}
    for text in texts:
        field, equals, column = text.partition("=")
        if not equals or not field:
            raise click.UsageError(f"Invalid --map {text[:80]!r}: expected FIELD=COLUMN, e.g. messages=question.")
        if field in _MAPPED_FIELDS:
            document[field] = column or None
        else:
            document.setdefault("inputs", {})[field.removeprefix("inputs.")] = column
    return decode_struct(document, ColumnMapInput)


def _parse_object(text: str, option: str) -> dict[str, Any]:
    try:
        value = json.decode(text.encode())
    except InvalidJson as error:
        reason = error.message.removeprefix("Invalid JSON: ")
        raise click.UsageError(f"Invalid {option}: parameters are not valid JSON: {reason}") from None
    except PalaverError as error:
        raise click.UsageError(f"Invalid {option}: {error.message}") from None
    if not isinstance(value, dict):
        raise click.UsageError(f"Invalid {option}: parameters must be a JSON object.")
    return cast("dict[str, Any]", value)


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise InvalidValue(f"{path} is larger than {_MAX_FILE_BYTES:,} bytes.")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise TargetNotFound(f"Cannot read {path}: not valid UTF-8.") from None
    except (OSError, ValueError) as error:
        raise TargetNotFound(f"Cannot read {path}: {error_reason(error)}.") from None


_file_type = click.Path()
_POSITIVE, _SHARE = click.FloatRange(0, min_open=True), click.FloatRange(0, 1)
_gate_options = (
    click.option(
        "--compare", metavar="EVAL|last", help="Evaluation to compare with; last for the latest one of this test set."
    ),
    click.option("--fail-under", multiple=True, metavar="[NAME=]RATE", help="Fail if the pass rate is below RATE."),
    click.option(
        "--allow-unscored",
        multiple=True,
        metavar="[NAME=]N%",
        help="Let gates pass although up to N% of the answers were not scored (default: 0%).",
    ),
    click.option("--max-regressions", type=click.IntRange(0), metavar="N", help="Fail if more than N rows regress."),
    click.option("--fail-on", type=click.Choice(["worse"]), help="Fail if a variant is significantly worse."),
    click.option("--strict", is_flag=True, help="Apply gates to the worst-case bound of the 95% confidence interval."),
)


def _add_gate_options(function: Callable[..., int]) -> Callable[..., int]:
    for option in reversed(_gate_options):
        function = option(function)
    return function


@click.command()
@click.argument("target", required=False)
@click.argument("testset", required=False)
@click.option("-e", "--evaluator", multiple=True, metavar="KEY[:JSON]", help="Evaluator to apply. Repeatable.")
@click.option("--agenta", metavar="FILE", help="Add the Agenta evaluators in this JSON file.")
@click.option("--evaluators", is_flag=True, help="List the evaluators and their requirements.")
@click.option("--variant", multiple=True, metavar="NAME:FILE", help="Variant to run. Repeatable.")
@click.option("--map", "columns", multiple=True, metavar="FIELD=COLUMN", help="Column to use for a field. Repeatable.")
@click.option("--repeats", type=click.IntRange(1, 100), default=1, help="Runs per row (default: 1).")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Run only the first N rows.")
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Run N random rows.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Random seed for --sample (default: 0).")
@click.option("--types", type=click.Choice(["auto", "text"]), default="auto", help="CSV cell types (default: auto).")
@click.option("--concurrency", type=click.IntRange(1, 1_000), default=10, help="Concurrent calls (default: 10).")
@click.option("--timeout", type=_POSITIVE, default=60, help="Timeout per call in seconds (default: 60).")
@click.option("--retries", type=click.IntRange(0, 20), default=2, help="Retries per call (default: 2).")
@click.option("--max-cost", type=_POSITIVE, metavar="USD", help="Stop the evaluation when it reaches this cost.")
@click.option("--max-errors", type=_SHARE, default=1.0, help="Maximum share of failed calls (default: 1).")
@click.option("--name", default="", help="Evaluation name.")
@_add_gate_options
@click.option("--junit", type=_file_type, help="Write a JUnit XML report.")
@click.option("--markdown", type=_file_type, help="Write a Markdown summary.")
@click.option("--html", type=_file_type, help="Write an HTML report.")
@click.option("--csv", type=_file_type, help="Write a CSV file with one row per result and evaluator.")
@click.option("--jsonl", type=_file_type, help="Write all results as JSON Lines.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@db_option
def command(target: str | None, testset: str | None, **flags: Any) -> int:
    """Run a test set against a workflow and score the answers.

    TARGET is a file, module:name, a URL or the name of an installed workflow.
    TESTSET is a file (CSV, JSON, JSONL or Parquet), a stored test set or one from
    an installed package. No server is needed. Without --db, nothing is stored,
    unless you use a stored test set, a stored variant or --compare.

    A gate fails if an evaluator did not score all answers, for example because
    rows have no expected answer, unless --allow-unscored permits it.

    Exit code 0: all gates passed; 1: a gate or the evaluation failed; 2: an
    evaluator raised an error, or usage error.

    \b
    Examples:
      palaver eval app.py questions.csv --evaluator exact_match
      palaver eval app.py:tutor q.jsonl -e 'regex:{"pattern": "^A"}' --repeats 3
      palaver eval app.py q.csv -e exact_match --variant 'new:{"style": "short"}'
      palaver eval app.py q.csv -e exact_match --compare last --max-regressions 0
      palaver eval app.py q.csv -e contains --map messages=text --fail-under 0.8
      palaver eval app.py q.csv -e contains --fail-under 0.8 --allow-unscored 5%
    """
    try:
        return _list_evaluators(target) if flags["evaluators"] else _evaluate(target, testset, flags)
    except RequestError as error:
        option = _invalid_option(error)
        if option is None:
            raise
        raise click.UsageError(_option_message(option, error, flags)) from None


def _invalid_option(error: RequestError) -> str | None:
    """Return the option whose value is invalid; None if an object was not found, or for a failure."""
    pointer = error.pointer or ""
    if isinstance(error, NotFound) or _REFERENCE_POINTER.fullmatch(pointer):
        return None
    return _OPTIONS_BY_FIELD.get(pointer.partition("/")[2].partition("/")[0])


def _option_message(option: str, error: RequestError, flags: Mapping[str, Any]) -> str:
    """Return the message with the option's value or form, if the message does not say it."""
    message = error.message
    if option == "--map":
        return f"{message} Use --map FIELD=COLUMN."
    index = (error.pointer or "").removeprefix("/variants/").partition("/")[0]
    if option == "--variant" and index.isdecimal() and int(index) < len(flags["variant"]):
        name = flags["variant"][int(index)].partition(":")[0]
        return f"--variant {name[:80]}: {message[:1].lower()}{message[1:]}"
    return message


def _evaluate(target: str | None, testset: str | None, flags: Mapping[str, Any]) -> int:
    if target is None or testset is None:
        raise click.UsageError("TARGET and TESTSET are required.")
    if not flags["evaluator"] and flags["agenta"] is None:
        raise click.UsageError("At least one --evaluator is required (see --evaluators for the list).")
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
    for line in outcome.evaluator_failures:
        click.echo(f"error: {printable(line, 500)}", err=True)
    if outcome.evaluation.state == "cancelled":
        return 130
    if outcome.evaluator_failures:
        return 2
    return 0 if outcome.evaluation.state in ("succeeded", "partly") and not outcome.failed else 1


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
    from palaver.evaluation.plan.request import Limits, NewEvaluation, RowSelection, TestsetInput
    from palaver.evaluation.results.gates import Gates, parse_allow_unscored, parse_fail_under

    name = workflow.description.name
    try:
        min_rate, min_rates = parse_fail_under(flags["fail_under"])
        max_unscored, allow_unscored = parse_allow_unscored(flags["allow_unscored"])
    except InvalidValue as error:
        raise click.UsageError(error.message) from None
    has_comparison = flags["compare"] is not None or len(flags["variant"]) > 1
    if not has_comparison and (flags["max_regressions"] is not None or flags["fail_on"]):
        raise click.UsageError("--max-regressions and --fail-on require --compare or several variants.")
    has_row_options = flags["limit"] is not None or flags["sample"] is not None
    rows = RowSelection(sample=flags["sample"], seed=flags["seed"], limit=flags["limit"]) if has_row_options else None
    request = NewEvaluation(
        name=flags["name"],
        testset=TestsetInput(id="", rows=rows),
        variants=tuple(parse_variant(text, name) for text in flags["variant"]) or (VariantInput(workflow=name),),
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
            max_unscored=max_unscored,
            allow_unscored=allow_unscored,
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
    with database_failures():
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
                raise TargetNotFound(f"Cannot write {flags[format_name]}: {error_reason(error)}.") from None


# Evaluators


def _list_evaluators(target: str | None) -> int:
    from palaver.discovery.registry import Registry
    from palaver.evaluation.registry import EvaluatorRegistry

    registry = _load_registry(target)[0] if target is not None else Registry()
    evaluators = EvaluatorRegistry(registry.evaluators, served=registry.names)
    rows = [(evaluator.key, evaluator.title, ", ".join(sorted(evaluator.needs))) for evaluator in evaluators]
    width, title_width = max(len(key) for key, _, _ in rows), max(len(title) for _, title, _ in rows)
    for key, title, needs in rows:
        click.echo(f"{key.ljust(width)}  {title.ljust(title_width)}  {needs and f'requires {needs}'}".rstrip())
    return 0
