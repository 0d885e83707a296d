"""Retention: how long spans are kept, and how much of them."""

from collections.abc import Mapping

import msgspec


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """0 is for ever, and any number."""

    days: int = 0
    of_projects: Mapping[str, int] = {}
    """The days of projects that have their own."""
    bytes: int = 0
