"""Type annotations: evaluated one by one, and unwrapped from None and metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, TypedDict, Union

import pytest

from palaver.workflows.annotations import hints_of, members_of, metadata_of, strip_annotation, strip_none

if TYPE_CHECKING:
    from decimal import Decimal


def mixed(a: int, b: Decimal, c: list[Decimal], d: Annotated[str, "d"], e: 1 / 0, f: Literal["x"]) -> None: ...  # type: ignore[valid-type]


def test_an_annotation_that_cannot_be_evaluated_stays_text_and_others_resolve() -> None:
    assert hints_of(mixed) == {
        "a": int,
        "b": "Decimal",
        "c": "list[Decimal]",
        "d": Annotated[str, "d"],
        "e": "1 / 0",
        "f": Literal["x"],
        "return": type(None),
    }


def test_extra_names_resolve_only_names_that_the_module_lacks() -> None:
    assert hints_of(mixed, extra_names={"Decimal": float, "int": str})["b"] is float
    assert hints_of(mixed, extra_names={"Literal": None})["f"] == Literal["x"]


@dataclass
class Base:
    a: int
    b: Decimal


@dataclass
class Derived(Base):
    a: str  # type: ignore[assignment]
    c: bool


class Dict(TypedDict):
    a: int
    b: Decimal


class Empty: ...


@pytest.mark.parametrize(
    ("kind", "hints"),
    [
        (Derived, {"a": str, "b": "Decimal", "c": bool}),
        (Dict, {"a": int, "b": "Decimal"}),
        (Empty, {}),
        (len, {}),
    ],
)
def test_the_hints_of_a_class_include_those_of_its_bases(kind: Any, hints: dict[str, Any]) -> None:
    assert hints_of(kind) == hints


@pytest.mark.parametrize(
    ("annotation", "without_none", "stripped"),
    [
        (int, int, int),
        (Any, Any, Any),
        (int | None, int, int),
        (Optional[int], int, int),  # noqa: UP045
        (int | str, int | str, int | str),
        (Union[int, str, None], Union[int, str, None], Union[int, str, None]),  # noqa: UP007
        (Annotated[int, "n"], Annotated[int, "n"], int),
        (Optional[Annotated[int, "n"]], Annotated[int, "n"], int),  # noqa: UP045
        (Annotated[int | None, "n"], Annotated[int | None, "n"], int),
        ("Decimal", "Decimal", "Decimal"),
    ],
    ids=str,
)
def test_none_and_metadata_are_stripped_from_an_annotation(annotation: Any, without_none: Any, stripped: Any) -> None:
    assert (strip_none(annotation), strip_annotation(annotation)) == (without_none, stripped)


@pytest.mark.parametrize(
    ("annotation", "metadata"),
    [
        (int, []),
        (Annotated[int, "a", 1], ["a", 1]),
        (Optional[Annotated[int, "a"]], ["a"]),  # noqa: UP045
        (Annotated[Annotated[int, "a"] | None, "b"], ["b"]),
    ],
)
def test_the_metadata_of_an_annotation_is_listed(annotation: Any, metadata: list[Any]) -> None:
    assert list(metadata_of(annotation)) == metadata


@pytest.mark.parametrize(
    ("annotation", "members"),
    [
        (list[int], (int,)),
        (Sequence[int] | None, (int,)),
        (Annotated[list[int | str], "n"], (int, str)),
        (list[Annotated[Annotated[int, "a"] | str | None, "b"]], (int, str, type(None))),
        (dict[str, int], (str, int)),
        (list, ()),
        (int, ()),
        (Literal["a"], ()),
        ("list[Decimal]", ()),
    ],
    ids=str,
)
def test_the_members_of_a_collection_are_listed(annotation: Any, members: tuple[Any, ...]) -> None:
    assert members_of(annotation) == members
