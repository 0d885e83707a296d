"""`palaver`: the group of commands, and the only place where errors are printed and become exit codes."""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
from click.exceptions import NoArgsIsHelpError, NoSuchCommand

from palaver.errors import PalaverError, SettingsError
from palaver.outbound import printable

COMMANDS = {
    "demo": "Start a demo server with sample workflows and data.",
    "serve": "Serve the workflows of a file, module or folder.",
    "inspect": "Show the workflows in a file, module or folder, or at a URL.",
    "chat": "Chat with a workflow in the terminal.",
    "call": "Call a workflow with a JSON payload.",
    "extract": "Find the conversation in a JSON or JSONL file, or explain why there is none.",
    "conform": "Check a server's streams against the protocol rules.",
    "eval": "Run a test set against a workflow and score the answers.",
    "worker": "Process background runs and evaluations, without serving HTTP.",
    "key": "Create, list and revoke API keys.",
    "variant": "List, compare, export and import variants (named parameter sets).",
    "thread": "List, show, export and import threads.",
    "testset": "Import, export, show, diff and convert test sets.",
    "review": "List reviews and export their answers.",
    "trace": "Tail, show, export and import traces.",
    "migrate": "Upgrade the database schema.",
    "backup": "Back up the database to a file, even while the server is running.",
    "restore": "Restore the database from a backup.",
    "erase": "Delete all data for a user or session (dry run by default).",
    "doctor": "Check the installation, or probe a server for security problems.",
}
"""Help texts by command. A command is `command` in the module of its name, and is imported only when it runs."""
_COMMAND_PACKAGES = frozenset(("doctor", "eval", "trace"))
"""Commands that are packages, with `command` in a module of that name."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = f"{cmd_name}.command" if cmd_name in _COMMAND_PACKAGES else cmd_name
        return import_module(f"palaver.cli.{module}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="palaver", message="%(version)s")
def cli() -> None:
    """Palaver gives any workflow a chat interface.

    \b
    Start here:
      palaver demo
      palaver serve app.py
      palaver chat eliza
    """


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit: 0 for success, 1 for a failure, 2 for a usage error."""
    try:
        result: Any = cli.main(args=arguments, prog_name="palaver", standalone_mode=False)
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.Abort:
        sys.exit(130)
    except NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _print_error(_click_message(error))
        if isinstance(error, click.UsageError):
            path = (
                error.ctx.command_path if error.ctx else _command_path(sys.argv[1:] if arguments is None else arguments)
            )
            click.echo(f"Try '{path} --help'.", err=True)
        sys.exit(error.exit_code)
    except PalaverError as error:
        _print_error(error.message)
        sys.exit(2 if isinstance(error, SettingsError) else 1)
    sys.exit(result if isinstance(result, int) else 0)


def _print_error(message: str) -> None:
    click.echo(f"error: {printable(message, 2000)}", err=True)


def _command_path(arguments: Sequence[str]) -> str:
    """Return the command that the arguments name, for errors that click raises without a context."""
    context = click.Context(cli, info_name="palaver")
    for name in arguments:
        command = context.command.get_command(context, name) if isinstance(context.command, click.Group) else None
        if command is None:
            break
        context = click.Context(command, info_name=name, parent=context)
    return context.command_path


def _click_message(error: click.ClickException) -> str:
    """Return the message as a sentence; an unknown command or option suggests the nearest one."""
    match error:
        case click.NoSuchOption(option_name=name, possibilities=names):
            return f"Unknown option {name!r}.{_suggestion(names)}"
        case NoSuchCommand(command_name=name, ctx=click.Context(command=click.Group() as group) as context):
            similar = get_close_matches(name, group.list_commands(context), cutoff=0.7)
            return f"Unknown command {name!r}.{_suggestion(similar)}"
        case _:
            message = " ".join(error.format_message().split())
            return message if message.endswith((".", "?", "!")) else f"{message}."


def _suggestion(names: Sequence[str] | None) -> str:
    return f" Did you mean {names[0]!r}?" if names else ""
