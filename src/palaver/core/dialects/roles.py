"""Who speaks, in anybody's words, as one of our five roles."""

from palaver.core.messages import ROLES, Role

_SYNONYMS: dict[str, Role] = {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "chatbot": "assistant",
    "agent": "assistant",
    "function": "tool",
}


def role_of(written: str, *, answers_a_call: bool = False) -> tuple[Role, str | None]:
    """The role, and the name that an unknown role turns into (frameworks put a tool's or an agent's name there)."""
    lowered = written.lower()
    if lowered in ROLES:
        return lowered, None  # pyright: ignore[reportReturnType]  # just tested
    if lowered in _SYNONYMS:
        return _SYNONYMS[lowered], None
    return ("tool" if answers_a_call else "assistant"), written
