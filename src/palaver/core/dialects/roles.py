"""Who speaks, in anybody's words, as one of our five roles."""

from typing import get_args

from palaver.core.messages import Role

_SYNONYMS: dict[str, Role] = {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "chatbot": "assistant",
    "agent": "assistant",
    "function": "tool",
}

ROLES: dict[str, Role] = {**{role: role for role in get_args(Role)}, **_SYNONYMS}
"""Every role that we know, as it is mostly written."""


def role_of(written: str, *, answers_a_call: bool = False) -> tuple[Role, str | None]:
    """The role, and the name that an unknown role turns into (frameworks put a tool's or an agent's name there)."""
    role = ROLES.get(written) or ROLES.get(written.lower())
    if role is not None:
        return role, None
    return ("tool" if answers_a_call else "assistant"), written
