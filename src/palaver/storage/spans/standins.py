"""What a list shows of a trace whose head does not say it: what the last call of a model says.

Whoever puts a span of their own around their calls writes no conversation on it, and seldom a model.
"""

from typing import Any

from sqlalchemy import BigInteger, Connection, select, type_coerce

from palaver.storage.spans.tables import spans

FIELDS = ("session", "user", "model", "provider", "preview_in", "preview_out")
"""What a call may say for its trace."""
MOST_CALLS = 8
"""Calls of models that are looked at, from the last on, for one that tells both what it was given and what it said."""


def told(db: Connection, project: str, trace: str) -> dict[str, Any]:
    """What the call that ended last says, of those that tell both sides if there are any: no field without a value."""
    ended = type_coerce(spans.c.start, BigInteger) + spans.c.duration_ms * 1000
    asked = select(*(spans.c[name] for name in FIELDS))
    asked = asked.where(spans.c.project == project, spans.c.trace_id == trace, spans.c.kind == "llm")
    calls = db.execute(asked.order_by(ended.desc(), spans.c.span_id).limit(MOST_CALLS)).all()
    if not calls:
        return {}
    call = next((call for call in calls if not (is_nothing(call.preview_in) or is_nothing(call.preview_out))), calls[0])
    fields = dict(zip(FIELDS, call, strict=True))
    return {name: value for name, value in fields.items() if not is_nothing(value)}


def is_nothing(value: Any) -> bool:
    """Is it no value, or a preview that shows none?"""
    return value is None or (isinstance(value, dict) and not value.get("text"))  # pyright: ignore[reportUnknownMemberType]  # JSON
