"""How long spans are stored, and how many bytes of them."""

from collections.abc import Mapping

import msgspec


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Retention limits; 0 means unlimited."""

    days: int = 0
    of_projects: Mapping[str, int] = {}
    """Days per project, for projects with their own limit."""
    bytes: int = 0
