"""Docstrings are divided into sections, and docstrings of fields are found."""

import msgspec

from palaver.core.messages import ToolCall
from palaver.workflows.context import Context
from tests.docs.docstrings import Docstring, field_docstrings, parse_docstring

SOURCE = """Add numbers.

    They may be
    negative.

    Args:
        first: One number,
            as an int: any.
        **others: More numbers.

    Raises:
        ValueError: No number.

    Example:
        add(
            1,
        )
    """


def test_a_docstring_is_divided_into_sections() -> None:
    assert parse_docstring(SOURCE) == Docstring(
        text="Add numbers.\n\nThey may be negative.",
        parameters={"first": "One number, as an int: any.", "**others": "More numbers."},
        raises={"ValueError": "No number."},
        example="add(\n    1,\n)",
    )
    assert parse_docstring("Only a line.") == Docstring(text="Only a line.")


def test_docstrings_of_fields_and_attributes_are_found() -> None:
    assert field_docstrings(ToolCall).keys() == set(ToolCall.__struct_fields__)
    assert field_docstrings(Context)["cancelled"].startswith("True once the run has been stopped.")
    assert field_docstrings(msgspec.Struct) == {}
