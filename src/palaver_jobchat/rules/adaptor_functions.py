"""Rules about calls of adaptor functions: they exist, take these arguments, and paths start with `$`."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from palaver_jobchat.javascript import SUBSTITUTION, Node, string_value
from palaver_jobchat.rules.base import Job, Remark, parameter_names, rule
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


_REQUEST_OPTIONS: Final = frozenset(
    """
    agentOptions body contentType errors followAllRedirects form headers maxRedirections parseAs query timeout tls
    """.split()
)


@rule("request_options")
def request_options(job: Job) -> Iterator[Remark]:
    """Find options of the http adaptor that are passed as data, and data that is passed as options.

    The argument of `post`, `put` and `patch` that takes the body changed in version 7, and the wrong one is no error.
    """
    docs = job.docs
    if docs is None or docs.adaptor.short != "http":
        return
    functions = {entry.name: parameter_names(entry) for entry in docs.entries}
    for operation in job.operations.all:
        names = functions.get(operation.name, [])
        if operation.name not in ("post", "put", "patch") or len(names) < 2 or len(operation.arguments) < 2:
            continue
        argument = unwrap(operation.arguments[1])
        keys = _object_keys(argument)
        if names[1] == "data" and keys is not None and "body" in keys and keys <= _REQUEST_OPTIONS:
            message = (
                f"`{operation.name}` sends this object as it is, with the key `body`. "
                "The body is the second argument, and options are the third."
            )
            yield Remark("error" if len(keys) > 1 else "warning", argument.line, message)
        elif names[1] != "data" and keys and not keys & _REQUEST_OPTIONS:
            message = f"`{operation.name}` takes options here and ignores these keys. Pass the body as `{{ body: … }}`."
            yield Remark("error", argument.line, message)


def _object_keys(node: Node) -> frozenset[str] | None:
    """Return the keys of an object literal, or None if they are not all known."""
    if node.kind != "object":
        return None
    entries = [child for child in node.children if child.kind != "comment"]
    keys = [entry.child("key") if entry.kind == "pair" else entry for entry in entries]
    if any(key is None or key.kind in ("spread_element", "computed_property_name") for key in keys):
        return None
    return frozenset(key.text.strip("'\"") for key in keys if key is not None)


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
