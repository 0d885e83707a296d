"""palaver trace: follow traces, read one, save them, take them back."""

import click

from palaver.cli.tracing.export import export
from palaver.cli.tracing.importing import import_
from palaver.cli.tracing.show import show
from palaver.cli.tracing.tail import tail


@click.group()
def command() -> None:
    """Follow traces, read one, save them, take them back.

    \b
    Examples:
      palaver trace tail --filter status=error
      palaver trace show 0af76519
      palaver trace export --workflow tutor --from 7d -o week.jsonl
      palaver trace export --trace 0af76519 -o trace.html
      palaver trace import week.jsonl
    """


for _one in (tail, show, export, import_):
    command.add_command(_one)
