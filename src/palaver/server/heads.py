"""The headers of a request, by name: decoded only where somebody asks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_Pairs = Sequence[tuple[bytes, bytes]]


class Head(Mapping[str, str]):
    """Headers as text. What was sent in several lines is one list, as RFC 9110 says."""

    __slots__ = ("raw", "repeats")

    def __init__(self, headers: _Pairs) -> None:
        self.raw: dict[bytes, bytes] = dict(headers)  # ASGI gives the names in lower case.
        """As they came, for those who look at every request."""
        self.repeats = len(self.raw) != len(headers)
        """Was any header sent twice?"""
        if self.repeats:
            self.raw = _joined(headers)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of that header."""
        value = self.raw.get(key.encode("latin-1"))
        return default if value is None else value.decode("latin-1")

    def __getitem__(self, key: str) -> str:
        return self.raw[key.encode("latin-1")].decode("latin-1")

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key.encode("latin-1") in self.raw

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self.raw)

    def __len__(self) -> int:
        return len(self.raw)


NO_HEAD = Head([])
"""For a request whose headers nobody needs any more."""


def _joined(headers: _Pairs) -> dict[bytes, bytes]:
    joined: dict[bytes, bytes] = {}
    for name, value in headers:
        joined[name] = joined[name] + b", " + value if name in joined else value
    return joined
