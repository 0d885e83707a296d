"""Variants: references, differences, and files."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import variants
from palaver.core.variants import Change, VariantFile, VariantReference, diff_json, parse_reference
from palaver.errors import InvalidParameter, RequestError

KEYS = st.text(st.characters(exclude_categories=["C"]), max_size=4)
"""No control characters: a body that has them in a key is refused."""
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 53), 1 << 53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=5)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("short", VariantReference("short")),
        ("short:3", VariantReference("short", 3)),
        ("tutor@short:3", VariantReference("short", 3, "tutor")),
        ("_tutor.v2@short", VariantReference("short", None, "_tutor.v2")),
    ],
)
def test_a_reference_names_a_variant_a_version_and_a_workflow(text: str, reference: VariantReference) -> None:
    assert parse_reference(text) == reference
    assert str(reference) == text


@given(st.builds(VariantReference, NAMES, st.none() | st.integers(1, 999_999_999), st.none() | NAMES))
def test_a_formatted_reference_is_parsed_unchanged(reference: VariantReference) -> None:
    assert parse_reference(str(reference)) == reference


@pytest.mark.parametrize(
    "text", ["", ":3", "short:", "short:0", "short:03", "short:-1", "short:x", "a b", "@short", "-a", "a\n", "a" * 65]
)
def test_malformed_references_are_rejected(text: str) -> None:
    with pytest.raises(
        InvalidParameter, match=r"Invalid variant reference .*: use name, name:3 or workflow@name:3"
    ) as caught:
        parse_reference(text, pointer="/variant")
    assert caught.value.pointer == "/variant"


def test_the_diff_lists_changed_removed_and_added_values_with_their_paths() -> None:
    before = {"same": 1, "text": "a", "gone": None, "deep": {"a/b": [1, 2, 3], "x": 1}, "kind": {}, "one": 1}
    after = {"same": 1, "text": "b", "deep": {"a/b": [1, 5], "x": 1, "~": 0}, "kind": [], "one": True, "new": None}

    assert diff_json(before, after) == [
        Change("/text", "a", "b"),
        Change("/gone", None),
        Change("/deep/a~1b/1", 2, 5),
        Change("/deep/a~1b/2", 3),
        Change("/deep/~0", after=0),
        Change("/kind", {}, []),
        Change("/one", 1, True),
        Change("/new", after=None),
    ]
    assert msgspec.json.encode(diff_json(before, after)[1]) == b'{"path":"/gone","from":null}'
    assert msgspec.json.encode(diff_json(before, after)[4]) == b'{"path":"/deep/~0","to":0}'


@given(OBJECTS)
def test_key_order_makes_no_difference(value: dict[str, Any]) -> None:
    other = dict(reversed(value.items()))

    assert diff_json(value, other) == []
    assert variants.is_same_json(value, other)


@given(OBJECTS, OBJECTS)
def test_the_diff_is_empty_exactly_for_equal_values(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert (diff_json(before, after) == []) == variants.is_same_json(before, after)


@given(OBJECTS, OBJECTS)
def test_applying_the_diff_yields_the_other_value(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert variants.is_same_json(apply_changes(before, diff_json(before, after)), after)


def apply_changes(value: Any, changes: list[Change]) -> Any:
    """Apply the changes to a copy of the value; removals in reverse, so that lists shrink from their end."""
    root = {"": msgspec.json.decode(msgspec.json.encode(value))}
    added = [change for change in changes if change.after is not msgspec.UNSET]
    removed = [change for change in reversed(changes) if change.after is msgspec.UNSET]
    for change in (*added, *removed):
        *steps, last = [step.replace("~1", "/").replace("~0", "~") for step in change.path.split("/")]
        container: Any = root
        for step in steps:
            container = container[int(step)] if isinstance(container, list) else container[step]
        if isinstance(container, list):
            if change.after is msgspec.UNSET:
                del container[int(last)]
            elif int(last) == len(container):
                container.append(change.after)
            else:
                container[int(last)] = change.after
        elif change.after is msgspec.UNSET:
            del container[last]
        else:
            container[last] = change.after
    return root[""]


# Files


FILE = VariantFile(
    workflow="tutor", name="short", parameters={"style": "short", "a": {"z": 1, "b": 2}}, palaver="variant/1"
)


def test_a_variant_file_has_sorted_keys_and_ends_with_a_newline() -> None:
    assert variants.encode_variant_file(FILE).decode() == (
        '{\n  "description": "",\n  "name": "short",\n  "palaver": "variant/1",\n  "parameters": {\n'
        '    "a": {\n      "b": 2,\n      "z": 1\n    },\n    "style": "short"\n  },\n  "workflow": "tutor"\n}\n'
    )
    assert variants.encode_variant_line(FILE) == (
        b'{"description":"","name":"short","palaver":"variant/1",'
        b'"parameters":{"a":{"b":2,"z":1},"style":"short"},"workflow":"tutor"}\n'
    )


@given(OBJECTS, st.text("aä \n🚀"))
def test_a_variant_file_is_decoded_as_it_was_encoded(parameters: dict[str, Any], description: str) -> None:
    file = VariantFile(
        workflow="tutor", name="short", description=description, parameters=parameters, palaver="variant/1"
    )
    text, line = (
        variants.decode_variant_file(variants.encode_variant_file(file)),
        variants.decode_variant_file(variants.encode_variant_line(file)),
    )

    assert variants.is_same_json(text, file)
    assert variants.is_same_json(line, file)


@pytest.mark.parametrize(
    ("changed", "code", "pointer"),
    [
        ({"name": "default"}, "invalid_value", "/name"),
        ({"name": "a\n"}, "invalid_value", "/name"),
        ({"workflow": "../x"}, "invalid_value", "/workflow"),
        ({"workflow": ".."}, "invalid_value", "/workflow"),
        ({"palaver": "thread/1"}, "invalid_value", "/palaver"),
        ({"parameters": []}, "invalid_type", "/parameters"),
        ({"parameters": {"x": "x" * 262_144}}, "too_large", "/parameters"),
        ({"description": "\0"}, "invalid_value", "/description"),
    ],
)
def test_invalid_variant_files_are_rejected(changed: dict[str, Any], code: str, pointer: str) -> None:
    file = msgspec.to_builtins(FILE) | changed

    with pytest.raises(RequestError) as caught:
        variants.decode_variant_file(msgspec.json.encode(file))
    assert (caught.value.code, caught.value.pointer) == (code, pointer)
