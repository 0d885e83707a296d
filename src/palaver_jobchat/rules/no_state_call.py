"""The rule that operations are not called by hand: `get('/x')(state)`."""

from collections.abc import Iterator
from typing import Final

from palaver_jobchat.javascript import Node
from palaver_jobchat.rules.base import Job, Remark, Rule
from palaver_jobchat.rules.operations import LANGUAGE, arguments, unwrapped

_STATES: Final = frozenset({"state", "next", "nextState"})
# These give no new state but a value out of it, and being called so is what they are for.
_VALUES: Final = frozenset(
    """
    asData dataPath dataValue field fields index jsonValue lastReferenceValue referencePath source sourceValue toArray
    """.split()
)


def _judge(job: Job) -> Iterator[Remark]:
    for node in job.root.walk():
        if node.kind != "call_expression" or (name := _operation(job, node)) is None:
            continue
        given = arguments(node)
        if len(given) == 1 and given[0].kind == "identifier" and given[0].text in _STATES:
            message = f"`{name}(…)` is called with state by hand. Make it an operation of its own at the top level."
            yield Remark("warning", node.line, message)


def _operation(job: Job, call: Node) -> str | None:
    """The name of the operation that a call calls what it gave."""
    callee = call.child("function")
    inner = unwrapped(callee) if callee is not None else None
    name = inner.child("function") if inner is not None and inner.kind == "call_expression" else None
    if name is None:
        return None
    root = name.child("object") if name.kind == "member_expression" else name
    if root is None or root.kind != "identifier" or root.text in LANGUAGE or name.text in _VALUES:
        return None
    return name.text if job.scopes.binding(root) is None else None


RULE = Rule(id="no_state_call", description="No operation is called with state by hand.", judge=_judge)
