"""Role names of all vendors."""

import pytest

from palaver.core.dialects.detection import KNOWN_ROLES
from palaver.core.messages import Role, parse_role


@pytest.mark.parametrize(
    ("written", "role"),
    [
        ("system", "system"),
        ("developer", "developer"),
        ("user", "user"),
        ("human", "user"),
        ("assistant", "assistant"),
        ("ai", "assistant"),
        ("model", "assistant"),
        ("bot", "assistant"),
        ("chatbot", "assistant"),
        ("agent", "assistant"),
        ("tool", "tool"),
        ("function", "tool"),
    ],
)
def test_a_known_role_is_one_of_five_in_any_case(written: str, role: Role) -> None:
    assert parse_role(written) == parse_role(written.upper()) == (role, None)
    assert written in KNOWN_ROLES


def test_an_unknown_role_becomes_a_name() -> None:
    assert parse_role("Researcher") == ("assistant", "Researcher")
    assert parse_role("weather", answers_a_call=True) == ("tool", "weather")
