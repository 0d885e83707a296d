"""What an answer suggests: the job after its edits or, where none can be made, the code in its text."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from palaver import Case, Data
from palaver_jobchat.adaptors import names
from palaver_jobchat.adaptors.names import Adaptor
from palaver_jobchat.rules.code_blocks import CodeBlock, javascript_blocks

_NOTHING: Mapping[str, Any] = {}


class SuggestedCode(msgspec.Struct, frozen=True, kw_only=True):
    """The code of one answer."""

    blocks: tuple[CodeBlock, ...]
    """What rules judge: the whole new job, or each block of the text."""
    old: str = ""
    """The job before."""
    new: str | None = None
    """The job after; none where no edit changes it, and where code stands in the text."""
    text: str = ""
    """What the answer says."""


def suggested_code(case: Case) -> SuggestedCode:
    """The code that an answer suggests. Where edits can be made, code in the text is an example and none of it."""
    edit = _data(case, "code-edit")
    if edit is not None:
        new = edit.get("new")
        blocks = (CodeBlock(new, 1),) if isinstance(new, str) else ()
        old = edit.get("old")
        return SuggestedCode(
            blocks=blocks,
            old=old if isinstance(old, str) else "",
            new=new if isinstance(new, str) else None,
            text=case.text,
        )
    old = _context(case).get("expression")
    blocks = () if _can_edit(case) else tuple(javascript_blocks(case.text))
    return SuggestedCode(blocks=blocks, old=old if isinstance(old, str) else "", text=case.text)


def answer_adaptor(case: Case) -> Adaptor | None:
    """The adaptor whose description the answer was made with; none where that was not the very version asked for."""
    reply = _data(case, "reply")
    if reply is None:  # An answer from elsewhere, that has only its text.
        asked = _context(case).get("adaptor")
        return names.parse_adaptor(asked) if isinstance(asked, str) and asked.strip() else None
    match reply:
        case {"meta": {"job_chat": {"adaptor": {"name": str(name), "version": str(version), "docs": "exact"}}}}:
            return Adaptor(name, version)
        case _:
            return None


def _can_edit(case: Case) -> bool:
    reply = _data(case, "reply")
    if reply is not None:
        return "suggested_code" in reply
    return case.inputs.get("suggest_code") is True or case.inputs.get("use_new_prompt") is True


def _data(case: Case, name: str) -> Mapping[str, Any] | None:
    """The value of the last data part of this name, if it is an object."""
    for message in reversed(case.messages):
        for part in reversed(message.parts):
            value: Any = part.value if isinstance(part, Data) and part.name == name else None
            if isinstance(value, dict):
                return cast("dict[str, Any]", value)
    return None


def _context(case: Case) -> Mapping[str, Any]:
    context = case.inputs.get("context")
    return cast("dict[str, Any]", context) if isinstance(context, dict) else _NOTHING
