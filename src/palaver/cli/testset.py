"""palaver testset: bring test sets in and out, look at them, compare their revisions."""

import click

from palaver.cli.testsets.convert import convert
from palaver.cli.testsets.diff import diff
from palaver.cli.testsets.export import export
from palaver.cli.testsets.importing import import_
from palaver.cli.testsets.show import list_, show


@click.group()
def command() -> None:
    """Bring test sets in and out, look at them, compare their revisions.

    \b
    Examples:
      palaver testset import cases.csv --name refunds
      palaver testset import more.jsonl --name refunds --mode append
      palaver testset list
      palaver testset show refunds
      palaver testset diff refunds 3 4
      palaver testset export refunds -o refunds.jsonl
      palaver testset convert cases.csv cases.jsonl
    """


for _one in (import_, export, list_, show, diff, convert):
    command.add_command(_one)
