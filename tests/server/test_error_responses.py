"""The table of statuses, the error classes and docs/reference/errors.md agree."""

import re
from pathlib import Path

import pytest

from palaver import errors
from palaver.core.events import RunCancelled, RunFailed, RunFinished
from palaver.errors import Failure, PalaverError, RequestError, RunError, TooLarge
from palaver.server.error_responses import STATUSES, error_status, final_status

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"


def classes(root: type[PalaverError]) -> set[type[PalaverError]]:
    return {root}.union(*(classes(below) for below in root.__subclasses__()))


def test_every_error_that_can_answer_a_request_has_a_status() -> None:
    codes = {kind.code for kind in classes(RequestError) | classes(RunError)}

    assert codes <= STATUSES.keys()


def test_every_status_has_an_error_class() -> None:
    assert STATUSES.keys() <= {kind.code for kind in classes(PalaverError)}


def test_every_error_class_is_exported_and_has_a_docstring() -> None:
    ours = {kind for kind in classes(PalaverError) if kind.__module__.startswith("palaver.errors")}

    exported = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert ours == {kind for kind in exported if issubclass(kind, PalaverError)}
    assert all(kind.__doc__ for kind in ours)


def test_the_errors_page_shows_the_same_status_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+)(?: / (\d+))? \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert {code: (int(a), int(b or a)) for code, a, b in rows} == {code: tuple(s) for code, s in STATUSES.items()}


def test_the_errors_page_names_every_error_code() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert [kind.code for kind in classes(PalaverError) if f"`{kind.code}`" not in text] == []


@pytest.mark.parametrize(
    ("error", "a", "b"),
    [
        (errors.MissingInput("x"), 422, 400),
        (errors.InvalidJson("x"), 400, 400),
        (TooLarge("x", part="url"), 414, 414),
        (TooLarge("x", part="headers"), 431, 431),
        (TooLarge("x"), 413, 413),
        (Failure("mine", "x", status=418), 418, 418),
        (Failure("mine", "x"), 500, 500),
        (Failure("mine", "x", status=200), 500, 500),
        (Failure("not_found", "x"), 404, 404),
    ],
)
def test_the_status_of_an_error(error: PalaverError, a: int, b: int) -> None:
    assert (error_status(error, "a"), error_status(error, "b")) == (a, b)


def test_the_final_status_of_a_finished_cancelled_or_failed_run() -> None:
    ends = [
        RunFinished(),
        RunCancelled(),
        RunFailed(code="too_large"),
        RunFailed(code="timeout"),
        RunFailed(code="mine"),
    ]

    assert [final_status(end) for end in ends] == [200, 200, 500, 504, 500]
    assert final_status(RunFailed(code="mine", status=451)) == 451
