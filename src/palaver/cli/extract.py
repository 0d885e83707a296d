"""palaver extract: print the conversation in a value and its location, or why none is found."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import click
import msgspec

from palaver.cli.input_files import JsonRecord, open_input, read_progress, read_records
from palaver.cli.output import echo, format_count, render_transcript
from palaver.core import json
from palaver.core.extraction import Prefer, extract_chat_messages, preview, read_conversation, truncation
from palaver.core.extraction.explain import Reason, explain_absence
from palaver.core.extraction.search import Conversation
from palaver.errors import TooDeep
from palaver.outbound import printable, printable_json

_EXCERPT_CHARS = 60
"""Maximum length of the excerpt on the line of a record."""
_MAX_REASONS = 3
"""Maximum number of reasons on the line of a record."""


class _ExtractOptions(NamedTuple):
    prefer: Prefer | None
    strict: bool
    as_json: bool


class _RecordReport(NamedTuple):
    result: Literal["found", "without", "bad"]
    text: str | bytes
    stderr: str = ""
    """Text for standard error, if the output is data."""


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--prefer", type=click.Choice(get_args(Prefer)), help="Conversation to use if both input and output have one."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the result of POST /api/extract; for JSONL, one line per record."
)
@click.option("--strict", is_flag=True, help="Use the strict search, and print its message list unchanged, as JSON.")
def command(file: str, prefer: Prefer | None, as_json: bool, strict: bool) -> int:
    """Find the conversation in FILE and print it with its path and dialect.

    If there is none, print the reasons. FILE is JSON or JSONL, or - for standard
    input. For JSONL, each record is reported on one line; invalid records don't
    stop the others.

    Exit code 0: found a conversation; 1: found none, or failed to read a record;
    2: usage error.

    \b
    Examples:
      palaver extract trace.json
      palaver extract spans.jsonl --prefer output
      sed -n 12p spans.jsonl | palaver extract - --json
    """
    options = _ExtractOptions(prefer, strict, as_json)
    counts: Counter[str] = Counter()
    is_jsonl = True
    with open_input(file) as stream, read_progress(stream) as (input_stream, print_line):
        for record in read_records(input_stream, file):
            is_jsonl = record.line is not None
            report = _report_record(record, options)
            counts[report.result] += 1
            if report.text:
                print_line(report.text)
            if report.stderr:
                print_line(report.stderr, err=True)
    if is_jsonl:
        echo(_format_summary(counts), err=True)
    return 0 if counts["found"] and not counts["bad"] else 1


def _format_summary(counts: Counter[str]) -> str:
    total, found, bad = counts.total(), counts["found"], counts["bad"]
    found_text = f"{format_count(total, 'record')}: {found:,} with a conversation"
    return f"{found_text}, {counts['without']:,} without" + (f", {bad:,} invalid" if bad else "")


# Reports


def _report_record(record: JsonRecord, options: _ExtractOptions) -> _RecordReport:
    if record.fault is None:
        try:
            return _report_strict(record, options) if options.strict else _report_conversation(record, options)
        except RecursionError:  # The decoder accepts deeper values than the encoder.
            record = record._replace(fault="is nested too deeply to print")
    if record.line is None:
        raise TooDeep(f"The value {record.fault}.")
    if options.as_json:
        return _RecordReport("bad", _encode_json({"line": record.line, "error": f"The line {record.fault}."}))
    if options.strict:
        return _RecordReport("bad", b"null", f"line {record.line} {record.fault}")
    return _RecordReport("bad", f"line {record.line} {record.fault}")


def _report_conversation(record: JsonRecord, options: _ExtractOptions) -> _RecordReport:
    conversation = read_conversation(record.value, options.prefer)
    explanations = explain_absence(record.value, options.prefer) if conversation is None else ()
    if options.as_json:
        document = {"conversation": conversation, "preview": preview(record.value, options.prefer)}
        text: str | bytes = _encode_result(record, document, explanations)
    elif record.line is None:
        text = "\n".join(
            (_format_heading(conversation), "", *render_transcript(conversation.messages))
            if conversation
            else _format_reasons(explanations)
        )
    else:
        summary = (
            f"{_format_heading(conversation)}{_format_excerpt(conversation)}"
            if conversation
            else f"no conversation: {_format_brief_reasons(explanations)}"
        )
        text = f"line {record.line}: {summary}"
    return _RecordReport("found" if conversation else "without", text)


def _report_strict(record: JsonRecord, options: _ExtractOptions) -> _RecordReport:
    messages = extract_chat_messages(record.value, options.prefer)
    result = "found" if messages is not None else "without"
    explanations = explain_absence(record.value, options.prefer, search="strict") if messages is None else ()
    if record.line is not None:
        if options.as_json:
            return _RecordReport(result, _encode_result(record, {"messages": messages}, explanations))
        return _RecordReport(
            result,
            _encode_json(messages),
            "" if messages is not None else f"line {record.line}: {_format_brief_reasons(explanations)}",
        )
    stderr = "\n".join([*_format_reasons(explanations), *_wide_hint(record.value, options)]) if messages is None else ""
    if options.as_json:
        return _RecordReport(result, _encode_json(messages), stderr)
    return _RecordReport(result, _encode_json(messages, indent=2) if messages is not None else "", stderr)


def _wide_hint(value: Any, options: _ExtractOptions) -> list[str]:
    conversation = read_conversation(value, options.prefer)
    return [f"hint: Found without --strict: {_format_heading(conversation)}"] if conversation is not None else []


# Formatting


def _format_heading(conversation: Conversation) -> str:
    count = len(conversation.messages)
    side = f"{conversation.side}  " if conversation.side else ""
    path = conversation.path or "(the whole value)"
    return f"{path}  {conversation.dialect}  {side}{format_count(count, 'message')}"


def _format_excerpt(conversation: Conversation) -> str:
    """Return an excerpt of the last user message, else of the first message with text."""
    user_messages = [message for message in conversation.messages if message.role == "user"]
    for message in (*reversed(user_messages), *conversation.messages):
        text = truncation.message_line(message, 2 * _EXCERPT_CHARS)
        if text:
            return f"  {message.role}: {printable(text, _EXCERPT_CHARS)}"
    return ""


def _format_reasons(explanations: Sequence[Reason]) -> list[str]:
    return ["No conversation found.", *(f"  {printable(str(reason), 500)}" for reason in explanations)]


def _format_brief_reasons(explanations: Sequence[Reason]) -> str:
    text = "; ".join(printable(str(reason)) for reason in explanations[:_MAX_REASONS])
    omitted_count = len(explanations) - _MAX_REASONS
    return f"{text}; {omitted_count} more" if omitted_count > 0 else text


def _encode_result(record: JsonRecord, result: dict[str, Any], explanations: Sequence[Reason]) -> bytes:
    if explanations:
        result |= {"reasons": explanations}
    return _encode_json(result, indent=2) if record.line is None else _encode_json({"line": record.line, **result})


def _encode_json(value: Any, indent: int = -1) -> bytes:
    """Encode JSON without terminal control characters."""
    text = json.encode(value)
    if indent > 0:
        text = msgspec.json.format(text, indent=indent)
    return printable_json(text.decode()).encode()
