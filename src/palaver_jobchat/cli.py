"""The command line `palaver-jobchat`."""

import asyncio
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click

from palaver import PalaverError
from palaver_jobchat.settings import read_settings


@click.group()
def commands() -> None:
    """Job Chat: an assistant for writing OpenFn jobs.

    \b
    Serve it:
      palaver serve palaver_jobchat:app
    """


@commands.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("payload")
@click.pass_context
def call(ctx: click.Context, payload: str) -> None:
    """Call Job Chat with the JSON in PAYLOAD (a file, or - for stdin), without a server.

    Accepts the options of `palaver call`: -o FILE, --stream.

    \b
    Example:
      palaver-jobchat call payload.json --stream
    """
    (palaver,) = entry_points(group="console_scripts", name="palaver")
    sys.argv = ["palaver", "call", "palaver_jobchat:app", payload, *ctx.args]
    palaver.load()()


@commands.command()
@click.argument("folder", metavar="PATH", type=click.Path(file_okay=False, exists=True, path_type=Path))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Index file (default: docs.db).")
def index(folder: Path, output: Path | None) -> None:
    """Index a folder of Markdown files, or update its index.

    \b
    Example:
      palaver-jobchat index ./docs -o docs.db
    """
    from rich.console import Console
    from rich.progress import Progress

    from palaver_jobchat.docs.index import index_folder

    settings = read_settings(os.environ, Path.cwd())
    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks = {stage: bars.add_task(stage, visible=False) for stage in ("files", "vectors")}
        lines = index_folder(
            folder,
            output,
            settings,
            progress=lambda stage, done, total: bars.update(tasks[stage], completed=done, total=total, visible=True),
        )
    click.echo("\n".join(lines))


@commands.command()
@click.argument("name")
@click.option("--full", is_flag=True, help="Print full entries, not only signatures.")
def adaptor(name: str, full: bool) -> None:  # noqa: FBT001 (click)
    """Print the adaptor docs that the model would see.

    \b
    Example:
      palaver-jobchat adaptor http@6.5.4
    """
    from palaver_jobchat.adaptors.library import AdaptorLibrary, describe_adaptor

    library = AdaptorLibrary(read_settings(os.environ, Path.cwd()))
    click.echo(asyncio.run(describe_adaptor(library, name, full=full)), nl=False)


@commands.command("fake-model")
@click.argument("script", type=click.Path(dir_okay=False, exists=True, path_type=Path))
@click.option("--port", type=int, default=0, help="Port to listen on (default: a free port).")
def fake_model(script: Path, port: int) -> None:
    """Serve a fake Anthropic Messages API that plays the steps in SCRIPT.

    \b
    Example:
      palaver-jobchat fake-model script.json --port 8700
    """
    from palaver_jobchat.testing import read_script, serve

    serve(read_script(script), port=port, ready=lambda url: click.echo(f"ANTHROPIC_BASE_URL={url}"))


def main() -> Any:
    """Run the command. A PalaverError is printed as one line."""
    try:
        return commands(prog_name="palaver-jobchat")
    except PalaverError as error:
        click.echo(f"Error: {error.message}", err=True)
        sys.exit(1)
