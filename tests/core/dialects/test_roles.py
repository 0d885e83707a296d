"""Role names of all vendors."""

import pytest

from palaver.core.dialects.detection import KNOWN_ROLES
from palaver.core.messages import Role, parse_role


@pytest.mark.parametrize(
    ("name", "role"),
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
def test_known_roles_map_to_one_of_five_ignoring_case(name: str, role: Role) -> None:
    assert parse_role(name) == parse_role(name.upper()) == (role, None)
    assert name in KNOWN_ROLES


def test_an_unknown_role_becomes_a_name() -> None:
    assert parse_role("Researcher") == ("assistant", "Researcher")
    assert parse_role("weather", answers_a_call=True) == ("tool", "weather")
