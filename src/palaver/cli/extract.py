"""palaver extract: the conversation in a value and where it stood, or why there is none."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import click
import msgspec

from palaver.cli.json_files import JsonRecord, open_input, read_records
from palaver.cli.output import echo, render_transcript
from palaver.cli.progress import read_progress
from palaver.core import json
from palaver.core.extraction import Prefer, excerpts, extract_chat_messages, preview, read_conversation
from palaver.core.extraction.conversation import Conversation
from palaver.core.extraction.explain import Reason, explain_absence
from palaver.errors import TooDeep
from palaver.outbound import printable, printable_json

_EXCERPT_CHARS = 60
"""Characters of what was said, on the line of a record."""
_MAX_REASONS = 3
"""On the line of a record."""


class _ExtractOptions(NamedTuple):
    prefer: Prefer | None
    strict: bool
    as_json: bool


class _RecordReport(NamedTuple):
    """What is said of one value."""

    result: Literal["found", "without", "bad"]
    text: str | bytes
    aside: str = ""
    """What goes to standard error, beside an output that is data."""


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--prefer", type=click.Choice(get_args(Prefer)), help="The side to take where a value has both.")
@click.option("--json", "as_json", is_flag=True, help="Print what POST /api/extract answers; for JSONL a line each.")
@click.option("--strict", is_flag=True, help="Print the raw list that the strict search finds, as it stands.")
def command(file: str, prefer: Prefer | None, as_json: bool, strict: bool) -> int:
    """Print the conversation in FILE, its place and its dialect, or why there is none.

    FILE holds JSON, or JSONL: then each record gets a line, and a broken one does not end the rest. A - stands for
    standard input. Exit code 0: a conversation was found; 1: none was, or something could not be read; 2: wrong usage.

    \b
    Examples:
      palaver extract trace.json
      palaver extract spans.jsonl --prefer output
      sed -n 12p spans.jsonl | palaver extract - --json
    """
    asked = _ExtractOptions(prefer, strict, as_json)
    counts: Counter[str] = Counter()
    by_lines = True
    with open_input(file) as stream, read_progress(stream) as (read, say):
        for record in read_records(read, file):
            by_lines = record.line is not None
            told = _report_record(record, asked)
            counts[told.result] += 1
            if told.text:
                say(told.text)
            if told.aside:
                say(told.aside, err=True)
    if by_lines:
        echo(_summary(counts), err=True)
    return 0 if counts["found"] and not counts["bad"] else 1


def _summary(counts: Counter[str]) -> str:
    total, found, bad = counts.total(), counts["found"], counts["bad"]
    named = f"{total:,} record{'s' * (total != 1)}: {found:,} conversation{'s' * (found != 1)}"
    return f"{named}, {counts['without']:,} without" + (f", {bad:,} that could not be read" if bad else "")


# What is said of a value


def _report_record(record: JsonRecord, asked: _ExtractOptions) -> _RecordReport:
    if record.fault is None:
        try:
            return _report_strict(record, asked) if asked.strict else _report_wide(record, asked)
        except RecursionError:  # The decoder took what the encoder does not.
            record = record._replace(fault="is nested too deep to be printed")
    if record.line is None:
        raise TooDeep(f"The value {record.fault}.")
    if asked.as_json:
        return _RecordReport("bad", _encode_json({"line": record.line, "error": f"The line {record.fault}."}))
    if asked.strict:
        return _RecordReport("bad", b"null", f"line {record.line} {record.fault}")
    return _RecordReport("bad", f"line {record.line} {record.fault}")


def _report_wide(record: JsonRecord, asked: _ExtractOptions) -> _RecordReport:
    found = read_conversation(record.value, asked.prefer)
    why = explain_absence(record.value, asked.prefer) if found is None else ()
    if asked.as_json:
        answer = {"conversation": found, "preview": preview(record.value, asked.prefer)}
        text: str | bytes = _encode_result(record, answer, why)
    elif record.line is None:
        text = "\n".join((_heading(found), "", *render_transcript(found.messages)) if found else _explain(why))
    else:
        said = f"{_heading(found)}{_excerpt(found)}" if found else f"no conversation: {_brief_reasons(why)}"
        text = f"line {record.line}: {said}"
    return _RecordReport("found" if found else "without", text)


def _report_strict(record: JsonRecord, asked: _ExtractOptions) -> _RecordReport:
    found = extract_chat_messages(record.value, asked.prefer)
    result = "found" if found is not None else "without"
    why = explain_absence(record.value, asked.prefer, search="strict") if found is None else ()
    if record.line is not None:
        if asked.as_json:
            return _RecordReport(result, _encode_result(record, {"messages": found}, why))
        return _RecordReport(
            result, _encode_json(found), "" if found is not None else f"line {record.line}: {_brief_reasons(why)}"
        )
    aside = "\n".join([*_explain(why), *_wider_hint(record.value, asked)]) if found is None else ""
    if asked.as_json:
        return _RecordReport(result, _encode_json(found), aside)
    return _RecordReport(result, _encode_json(found, indent=2) if found is not None else "", aside)


def _wider_hint(value: Any, asked: _ExtractOptions) -> list[str]:
    wider = read_conversation(value, asked.prefer)
    return [f"Without --strict there is one: {_heading(wider)}"] if wider is not None else []


# How it is written


def _heading(found: Conversation) -> str:
    count = len(found.messages)
    side = f"{found.side}  " if found.side else ""
    return f"{found.path or '(the whole value)'}  {found.dialect}  {side}{count:,} message{'s' * (count != 1)}"


def _excerpt(found: Conversation) -> str:
    """One line of what it is about: the last that its user said, else the first that anybody did."""
    users = [message for message in found.messages if message.role == "user"]
    for message in (*reversed(users), *found.messages):
        said = excerpts.line(message, 2 * _EXCERPT_CHARS)
        if said:
            return f"  {message.role}: {printable(said, _EXCERPT_CHARS)}"
    return ""


def _explain(why: Sequence[Reason]) -> list[str]:
    return ["No conversation was found.", *(f"  {printable(str(reason), 500)}" for reason in why)]


def _brief_reasons(why: Sequence[Reason]) -> str:
    said = "; ".join(printable(str(reason)) for reason in why[:_MAX_REASONS])
    more = len(why) - _MAX_REASONS
    return f"{said}; and {more} more" if more > 0 else said


def _encode_result(record: JsonRecord, answer: dict[str, Any], why: Sequence[Reason]) -> bytes:
    if why:
        answer |= {"reasons": why}
    return _encode_json(answer, indent=2) if record.line is None else _encode_json({"line": record.line, **answer})


def _encode_json(value: Any, indent: int = -1) -> bytes:
    """JSON, and nothing in it that a terminal would act on."""
    text = json.encode(value)
    if indent > 0:
        text = msgspec.json.format(text, indent=indent)
    return printable_json(text.decode()).encode()
