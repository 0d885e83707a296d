"""The rule that paths begin at `$`."""

from collections.abc import Iterator
from typing import Final

from palaver_jobchat.rules.base import Job, Remark, Rule
from palaver_jobchat.rules.operations import unwrapped
from palaver_jobchat.rules.texts import HOLE, text_of

_PATHS: Final = {
    "asData": (0,),
    "each": (0,),
    "join": (0, 1),
    "map": (0,),
    "merge": (0,),
    "source": (0,),
    "sourceValue": (0,),
}
"""Which arguments are paths. `dataValue` and its like take a key instead."""


def _judge(job: Job) -> Iterator[Remark]:
    for operation in job.operations.all:
        for place, argument in enumerate(operation.arguments):
            if place not in _PATHS.get(operation.name, ()):
                continue
            path = text_of(unwrapped(argument))
            if path is not None and not path.startswith(("$", HOLE)):
                message = f"A path begins with `$`: `'$.{path.strip('.')}'`, or lazy state without quotes."
                yield Remark("warning", argument.line, message)


RULE = Rule(id="json_path", description="Paths given as text begin with `$`.", judge=_judge)
