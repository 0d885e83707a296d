"""What a check of the doctor's says."""

from typing import Literal

import msgspec

Sign = Literal["ok", "warning", "problem"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list."""

    subject: str
    """What it is about: settings, database, extras …"""
    sign: Sign
    says: str
    do: str = ""
    """What to do about it; empty where nothing needs doing."""

    @property
    def line(self) -> str:
        """All of it as a sentence or two."""
        return f"{self.says} {self.do}".rstrip()


def ok(subject: str, says: str, do: str = "") -> Check:
    """All is well; `do` is what one may do, not what one must."""
    return Check(subject=subject, sign="ok", says=says, do=do)


def warning(subject: str, says: str, do: str) -> Check:
    """It works, but perhaps not as somebody means it."""
    return Check(subject=subject, sign="warning", says=says, do=do)


def problem(subject: str, says: str, do: str) -> Check:
    """It does not work, or is not safe."""
    return Check(subject=subject, sign="problem", says=says, do=do)
