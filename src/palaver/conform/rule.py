"""What a rule is, and which protocols there are to keep them."""

from typing import Literal

from msgspec import Struct

Protocol = Literal["responses", "invocations", "chat-completions", "ui-stream", "services"]
"""What is spoken. `responses` and `invocations` are the two profiles of one protocol."""
Severity = Literal["must", "should"]


class Rule(Struct, frozen=True):
    """One thing that a stream, a body or a refusal has to keep."""

    id: str
    says: str
    must: tuple[Protocol, ...]
    """Where a client breaks without it. Anywhere else it is a should."""
    breaks: str
    """Which clients break, or why it is only a should."""
