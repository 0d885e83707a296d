"""Rules about calls of adaptor functions: they exist, and paths start with `$`."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from palaver_jobchat.javascript import SUBSTITUTION, string_value
from palaver_jobchat.rules.base import Job, Remark, rule
from palaver_jobchat.rules.operations import unwrap

# Exists in every adaptor, but descriptions often omit it.
_UNDOCUMENTED = frozenset({"execute"})


@rule("known_functions")
def known_functions(job: Job) -> Iterator[Remark]:
    docs = job.docs
    if docs is None:
        return
    known = {entry.name for entry in docs.entries if entry.kind == "function"} | _UNDOCUMENTED
    for operation in job.operations.all:
        # Descriptions don't list namespaced functions.
        if not operation.is_bare or operation.name in known:
            continue
        close = get_close_matches(operation.name[:100], known, n=1)
        hint = f" Did you mean `{close[0]}`?" if close else ""
        message = f"{docs.adaptor.name}@{docs.version} has no function `{operation.name}`.{hint}"
        yield Remark("error", operation.call.line, message)


_PATH_ARGUMENTS: Final = {
    "asData": (0,),
    "each": (0,),
    "join": (0, 1),
    "map": (0,),
    "merge": (0,),
    "source": (0,),
    "sourceValue": (0,),
}
"""Arguments that are paths, by function. `dataValue` and the like take a key instead."""


@rule("json_path")
def json_path(job: Job) -> Iterator[Remark]:
    for operation in job.operations.all:
        for index, argument in enumerate(operation.arguments):
            if index not in _PATH_ARGUMENTS.get(operation.name, ()):
                continue
            path = string_value(unwrap(argument))
            if path is not None and not path.startswith(("$", SUBSTITUTION)):
                message = f"Paths must start with `$`: write `'$.{path.strip('.')}'`, or use lazy state without quotes."
                yield Remark("warning", argument.line, message)
