"""The commands with their `--help`, as docs/reference/cli.md shows them, and the command that an invocation runs."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import click

from palaver.cli.main import cli
from palaver_jobchat.cli import commands as jobchat

PROGRAMS: dict[str, click.Group] = {"palaver": cli, "palaver-jobchat": jobchat}
WIDTH = 110


def contexts(program: str) -> Iterator[click.Context]:
    """Yield a context for the program and each of its commands, recursively."""
    group = PROGRAMS[program]
    return _subcontexts(click.Context(group, info_name=program, terminal_width=WIDTH, **group.context_settings))


def _subcontexts(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(group := context.command, click.Group):
        for name in group.list_commands(context):
            match = group.get_command(context, name)
            assert match is not None
            yield from _subcontexts(click.Context(match, info_name=name, parent=context))


def table() -> str:
    """Return the generated part of docs/reference/cli.md."""
    all_contexts = [context for program in PROGRAMS for context in contexts(program)]
    return "\n\n".join(f"{_heading(context)}\n\n```text\n{help_of(context)}\n```" for context in all_contexts)


def _heading(context: click.Context) -> str:
    return f"{'##' if context.parent is None else '###'} {context.command_path}"


def help_of(context: click.Context) -> str:
    """Return the output of `--help`, in lines of 110 characters."""
    return "\n".join(line.rstrip() for line in context.get_help().splitlines())


def examples(context: click.Context) -> str:
    """Return the examples in a command's help, as shell lines."""
    match = re.search(r"^ *(?:Examples?|Start here|Serve it):\n((?:    .*\n?)+)", context.get_help(), re.MULTILINE)
    return match[1] if match else ""


def parse(program: str, arguments: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the command path and the parameters of an invocation. Raises ClickException for invalid arguments."""
    with ExitStack() as stack:  # Parsing opens files that arguments name.
        context = stack.enter_context(PROGRAMS[program].make_context(program, list(arguments)))
        while isinstance(group := context.command, click.Group):
            remaining_arguments = [*context._protected_args, *context.args]  # Click splits them.
            name, command, remaining_arguments = group.resolve_command(context, remaining_arguments)
            assert command is not None
            context = stack.enter_context(command.make_context(name, remaining_arguments, parent=context))
        return context.command_path, context.params
