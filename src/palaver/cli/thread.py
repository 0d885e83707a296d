"""palaver thread: list, show, export and import threads."""

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from palaver.cli.database import iterate_pages, new_id, read_database, use_database, write_database
from palaver.cli.input_files import JsonRecord, open_input, read_records
from palaver.cli.options import CommandT, db_option, project_option
from palaver.cli.output import format_count, format_json, one_line, open_output, render_transcript
from palaver.errors import InvalidValue, RequestError
from palaver.outbound import printable, printable_json

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.threads.import_export import ThreadFile
    from palaver.storage.threads.message_tree import Node
    from palaver.storage.threads.repository import Thread

_TITLE_CHARS = 60


def _filter_options(command: CommandT) -> CommandT:
    for option, text in (
        ("--origin", "Only threads with this origin: playground, api or import."),
        ("--workflow", "Only threads of this workflow."),
        ("--search", "Only threads with this text in the title or a message."),
    ):
        command = click.option(option, help=text)(command)
    return command


@click.group()
def command() -> None:
    """List, show, export and import threads.

    \b
    Examples:
      palaver thread list --search invoice
      palaver thread show conv_01k2…
      palaver thread export conv_01k2… -o talk.html
      palaver thread export --workflow tutor > threads.jsonl
      palaver thread import threads.jsonl
    """


@command.command(name="list")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="Maximum number of threads.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_filter_options
@project_option("threads")
@db_option
def list_threads(
    limit: int,
    as_json: bool,
    search: str | None,
    workflow: str | None,
    origin: str | None,
    project: str,
    db: str | None,
) -> None:
    """List threads, most recently active first.

    \b
    Examples:
      palaver thread list
      palaver thread list --search "sky" --workflow tutor --json
    """
    from palaver.storage.pagination import Window
    from palaver.storage.threads import repository as threads  # Imported late: --help must not wait for SQLAlchemy.

    filters = threads.ThreadFilters(search=search, workflow=workflow, origin=origin)
    rows = read_database(db, threads.list_threads, project, filters, Window(limit)).data
    if as_json:
        click.echo(format_json([msgspec.to_builtins(row.thread) for row in rows]))
        return
    if not rows:
        click.echo("No threads.")
    for row in rows:
        thread = row.thread
        summary = printable(row.match.text if row.match else thread.title or "(no messages yet)", _TITLE_CHARS)
        updated = f"{thread.updated_at:%Y-%m-%d %H:%M}"
        click.echo(f"{thread.id}  {updated}  {thread.messages:>5}  {thread.workflow or '-':<14}  {summary}")


@command.command(name="show")
@click.argument("thread", metavar="THREAD")
@click.option("--at", default="head", help="Id of the last message of the branch (default: the current branch).")
@click.option("--json", "as_json", is_flag=True, help="Print the thread and its messages as JSON.")
@project_option("threads")
@db_option
def show_thread(thread: str, at: str, as_json: bool, project: str, db: str | None) -> None:
    """Show a branch of a thread.

    \b
    Example:
      palaver thread show conv_01k2…
    """
    thread_row, branch = read_database(db, _load_branch, project, thread, at)
    if as_json:
        click.echo(
            format_json({"thread": msgspec.to_builtins(thread_row), "messages": list(map(msgspec.to_builtins, branch))})
        )
        return
    click.echo(click.style(one_line(thread_row.title or thread_row.id), bold=True))
    for line in ("", *render_transcript([node.message for node in branch])):
        click.echo(line)


def _load_branch(db: "Connection", project: str, thread: str, at: str) -> "tuple[Thread, list[Node]]":
    from palaver.storage.threads import repository as threads

    return threads.require_thread(db, project, thread), threads.get_branch(db, project, thread, at)


@command.command(name="export")
@click.argument("thread", metavar="[THREAD]", required=False)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(("jsonl", "messages", "html")),
    help="jsonl: full threads; messages: test set rows; html: a web page (default: html for .html files, else jsonl).",
)
@click.option(
    "--branches",
    type=click.Choice(("current", "all")),
    default="current",
    help="Branches to export with --format messages.",
)
@click.option("-o", "--output", metavar="FILE", help="Output file (default: standard output).")
@_filter_options
@project_option("threads")
@db_option
def export_threads(
    thread: str | None,
    format_name: str | None,
    branches: str,
    output: str | None,
    project: str,
    db: str | None,
    **filters: Any,
) -> None:
    """Export THREAD, or all threads that match the filters.

    The output is JSON Lines, unless the format is html.

    \b
    Examples:
      palaver thread export conv_01k2… -o talk.html
      palaver thread export --workflow tutor --format messages -o cases.jsonl
    """
    format_name = format_name or ("html" if output is not None and output.endswith((".html", ".htm")) else "jsonl")
    if format_name == "html" and thread is None:
        raise click.UsageError("--format html requires a THREAD.")
    with open_output(output, _write_to_stdout) as write:
        asyncio.run(_export(db, project, thread, filters, format_name, branches, write))


async def _export(
    db: str | None,
    project: str,
    thread: str | None,
    filters: dict[str, Any],
    format_name: Any,
    branches: Any,
    write: Callable[[bytes], object],
) -> None:
    from palaver.storage.threads import repository as threads
    from palaver.storage.threads.import_export import export_thread

    async with use_database(db) as database:
        if thread is None:
            async for rows in iterate_pages(database, threads.list_threads, project, threads.ThreadFilters(**filters)):
                for row in rows:
                    write(await database.read(export_thread, project, row.thread.id, format_name, branches))
        elif format_name == "html":
            from palaver.server.api.html_export import read_thread_page

            write(await database.read(read_thread_page, project, thread))
        else:
            write(await database.read(export_thread, project, thread, format_name, branches))


@command.command(name="import")
@click.argument("file", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@project_option("threads")
@db_option
def import_threads(file: str, as_json: bool, project: str, db: str | None) -> int:
    """Import threads from FILE, as written by `palaver thread export`.

    Use - for standard input. Threads keep their ids unless they are already in
    use. Threads that already exist with the same messages are skipped.

    \b
    Example:
      palaver thread import threads.jsonl
    """
    with open_input(file) as stream:
        files = [_parse_thread(record) for record in read_records(stream, file)]
    created = write_database(db, _import, project, files)
    unchanged = len(files) - len(created)
    if as_json:
        click.echo(format_json({"created": len(created), "unchanged": unchanged, "threads": created}))
    else:
        click.echo(f"{format_count(len(created), 'thread')} imported, {unchanged:,} unchanged.")
    return 0


def _parse_thread(record: JsonRecord) -> "ThreadFile":
    from palaver.storage.threads import import_export as thread_files

    location = f"Line {record.line}: " if record.line is not None else ""
    if record.fault is not None:
        raise InvalidValue(f"{location}the value {record.fault}." if location else f"The value {record.fault}.")
    try:
        return thread_files.parse_thread_file(record.value)
    except RequestError as error:
        raise InvalidValue(f"{location}{error.message}") from None


def _import(db: "Connection", project: str, files: "list[ThreadFile]") -> list[str]:
    from palaver.storage.threads import import_export as thread_files

    imported = [thread_files.import_thread(db, project, file, id=new_id("conv")) for file in files]
    return [thread.id for thread in imported if thread is not None]


# Output


def _write_to_stdout(text: bytes) -> None:
    sys.stdout.buffer.write(printable_json(text.decode()).encode() if text.startswith(b"{") else text)
