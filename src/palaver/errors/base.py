"""The root, and the one error that belongs to authors."""

from collections.abc import Mapping
from typing import Any


class PalaverError(Exception):
    """The root of all errors of ours."""

    code: str = "internal"

    def __init__(self, message: str, *, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, Any] = details or {}


class Failure(PalaverError):
    """Ends a run on purpose: `raise Failure("no_such_city", "I do not know Atlantis.", status=404)`."""

    def __init__(
        self, code: str, message: str, *, status: int | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, details=details)
        self.code = code
        self.status = status if status is None or 400 <= status <= 599 else 500
