"""What reading a job's JavaScript found: values only; who reads it is another file."""

import msgspec


class Fault(msgspec.Struct, frozen=True):
    """One place that is not JavaScript."""

    line: int
    column: int
    message: str


class Syntax(msgspec.Struct, frozen=True):
    """Whether code is JavaScript, and the first places where it is not."""

    ok: bool = True
    errors: tuple[Fault, ...] = ()
