"""`palaver`: the group of commands, and the only place where errors are printed and become exit codes."""

import sys
from importlib import import_module
from typing import Any

import click

from palaver.errors import PalaverError, SettingsError
from palaver.outbound import printable

COMMANDS = {
    "demo": "Everything, offline, with sample workflows.",
    "serve": "Serve the workflows of a file, a module or a folder.",
    "inspect": "Show what a file, a module, a folder or a URL declares.",
    "chat": "Talk to a workflow in the terminal.",
    "call": "Call a workflow with a JSON payload.",
    "extract": "Find the conversation in JSON or JSONL, or say why there is none.",
    "conform": "Grade any server's streams against the rules of the protocols.",
    "eval": "Run a test set over a workflow, score its answers, and fail where they are not good enough.",
    "worker": "Take background runs from the queue, beside servers.",
    "key": "Give out keys, list them, revoke them.",
    "variant": "List, compare, export and import variants: named sets of parameters.",
    "thread": "List, read, save and take back conversations.",
    "testset": "Bring test sets in and out, look at them, compare their revisions.",
    "review": "List reviews, and save what people said in one.",
    "trace": "Follow traces, read one, save them and take them back.",
    "migrate": "Bring the database to the form that this version knows.",
    "backup": "Write the database to one file, also while a server is at work.",
    "restore": "Bring a backup back; what was there is set aside.",
    "erase": "Forget a user or a session, after counting what there is.",
    "doctor": "Check this installation and its settings; or, with --attack, whether a server holds.",
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
    """Run a command and exit: 0 for success, 1 for a failure, 2 for wrong usage."""
    try:
        result: Any = cli.main(args=arguments, prog_name="palaver", standalone_mode=False)
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except PalaverError as error:
        click.echo(f"error: {printable(error.message, 2000)}", err=True)
        sys.exit(2 if isinstance(error, SettingsError) else 1)
    sys.exit(result if isinstance(result, int) else 0)
