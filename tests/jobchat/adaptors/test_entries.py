"""Parse an adaptor's description and select entries, with an invented adaptor for a library system."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver_jobchat.adaptors.entries import Entry, decode_description, parse_description, select_entries


def name_type(name: str) -> dict[str, Any]:
    return {"type": "NameExpression", "name": name}


def optional(inner_type: dict[str, Any]) -> dict[str, Any]:
    return {"type": "OptionalType", "expression": inner_type}


def union(*member_types: dict[str, Any]) -> dict[str, Any]:
    return {"type": "UnionType", "elements": list(member_types)}


def array(item_type: dict[str, Any]) -> dict[str, Any]:
    return {"type": "TypeApplication", "expression": name_type("Array"), "applications": [item_type]}


def param(name: str, kind: dict[str, Any] | None = None, description: str | None = None, **more: Any) -> dict[str, Any]:
    return {"title": "param", "name": name, "type": kind, "description": description, **more}


def function(name: str, params: Any, *tags: dict[str, Any], description: str | None = None) -> dict[str, Any]:
    return {"name": name, "params": params, "valid": True, "docs": {"description": description, "tags": list(tags)}}


RETURNS = {"title": "returns", "description": None, "type": name_type("Operation")}
LEND = function(
    "lend",
    ["book", "options", "callback"],
    param("book", union(name_type("string"), array(name_type("Book"))), "What to lend."),
    param("options", optional(name_type("object")), "How to lend it."),
    param("options.days", optional(name_type("number")), "For how long.\nAt most 90.", default="14"),
    param("callback"),
    {"title": "example", "description": "lend('Emma')"},
    {"title": "example", "description": "lend('Emma', { days: 3 })", "caption": "for three days"},
    RETURNS,
    description="Lend a book.",
)


def signatures(*operations: Any, **groups: Any) -> list[str]:
    return [entry.signature for entry in parse_description({"operations": list(operations), **groups})]


def test_entry_text_has_parameters_defaults_and_examples() -> None:
    assert parse_description({"operations": [LEND], "exports": [], "common": []}) == (
        Entry(
            "lend",
            "lend(book: string|Array<Book>, options?: object, callback): Operation",
            "lend(book: string|Array<Book>, options?: object, callback): Operation\n"
            "Lend a book.\n"
            "Parameters:\n"
            "- book: string|Array<Book>: What to lend.\n"
            "- options?: object: How to lend it.\n"
            "  - days?: number = 14: For how long.\n"
            "    At most 90.\n"
            "- callback\n"
            "Example:\n"
            "lend('Emma')\n"
            "Example: for three days\n"
            "lend('Emma', { days: 3 })",
        ),
    )


@pytest.mark.parametrize(
    ("entry", "signature"),
    [
        (function("a", ["x", "y"]), "a(x, y)"),
        (function("a", []), "a()"),
        (
            function("a", [], param("x", name_type("string")), param("x.y", name_type("string")), param("z")),
            "a(x: string, z)",
        ),
        (function("a", {}, param("x", name_type("string"))), "a(x: string)"),
        (function("a", ["x"], param("x", {"type": "RestType"})), "a(x: any)"),
        (function("a", ["x"], param("x", {"type": "FunctionType", "params": []})), "a(x: any)"),
        (function("a", ["x"], param("x", array(union(name_type("A"), {"type": "NullLiteral"})))), "a(x: Array<A|any>)"),
        (function("a", ["x"], param("x", {"type": "TypeApplication", "expression": name_type("Set")})), "a(x: Set)"),
        (function("a", ["x"], param("x", optional(optional(name_type("A"))))), "a(x?: A)"),
        (function("a", [], {"title": "returns", "type": None}), "a()"),
        ({"name": "a", "params": ["x", 5]}, "a(x)"),
        ({**function("a", []), "valid": False}, "a()"),
    ],
)
def test_signature_is_built_from_parameters_and_types(entry: Any, signature: str) -> None:
    assert signatures(entry) == [signature]


def test_typedef_becomes_a_type_entry_and_not_a_function() -> None:
    options = function(
        "execute",
        ["operations"],
        {"title": "typedef", "name": "LendOptions", "type": name_type("Object")},
        {"title": "property", "name": "days", "type": name_type("number"), "description": "For how long."},
        {"title": "property", "name": "to", "type": optional(name_type("string")), "description": None},
        description="How to lend.",
    )
    untyped = function("fn", [], {"title": "typedef", "name": "Shelf", "type": array(name_type("Book"))})
    execute = function("execute", ["operations"])

    first, second, third = parse_description({"operations": [options, untyped], "common": [execute]})

    assert first == Entry(
        "LendOptions",
        "type LendOptions = { days: number, to?: string }",
        "type LendOptions = { days: number, to?: string }\nHow to lend.\nProperties:\n"
        "- days: number: For how long.\n- to?: string",
        "type",
    )
    assert second.signature == "type Shelf = Array<Book>"
    assert third.signature == "execute(operations)"


def test_private_function_is_left_out_even_if_it_is_also_tagged_public() -> None:
    assert signatures(function("a", [], {"title": "public"}, {"title": "private"}), function("b", [])) == ["b()"]


def test_function_of_the_adaptor_hides_the_common_one_of_the_same_name() -> None:
    common = [function("each", ["a"]), function("fn", ["f"])]

    assert signatures(function("each", ["b"]), exports=[function("x", [])], common=common) == [
        "each(b)",
        "x()",
        "fn(f)",
    ]


def test_dotted_parameters_are_listed_under_their_parent_in_any_order() -> None:
    tags = [param("a.b.c"), param("a"), param("rows[].id"), param("rows"), param("a.b"), param("lost.x")]

    (entry,) = parse_description({"operations": [function("f", ["a", "rows"], *tags)]})

    assert entry.text.split("\n")[2:] == ["- a", "    - c", "  - b", "- rows", "  - id", "- lost.x"]


def test_deeply_nested_type_is_cut_off_with_any() -> None:
    kind = name_type("A")
    for _ in range(50):
        kind = array(kind)

    (signature,) = signatures(function("f", ["x"], param("x", kind)))

    assert signature.count("Array") == 20
    assert "any" in signature


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"5", b'{"operations":'])
def test_invalid_description_is_decoded_as_none(content: bytes) -> None:
    assert decode_description(content) is None


def test_description_is_decoded_from_json_bytes() -> None:
    assert decode_description(msgspec.json.encode({"operations": [LEND]})) == parse_description({"operations": [LEND]})


KEYS = ["operations", "common", "name", "params", "docs", "tags", "title", "type", "description", "elements"]


@given(
    st.recursive(
        st.none() | st.integers() | st.sampled_from(["param", "typedef", "UnionType", "x.y", ""]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
        max_leaves=25,
    )
)
def test_any_json_is_parsed_as_a_description(ast: Any) -> None:
    assert all(entry.text.startswith(entry.signature) for entry in parse_description({"operations": [ast, LEND]}))
    assert parse_description(ast) is not None


def entry(name: str, summary: str = "nothing much") -> Entry:
    return Entry(name, f"{name}()", f"{name}()\n{summary:<90}")


NAMES = ["lend", "find", "order", "sort", "burn"]
ENTRIES = [*(entry(name) for name in NAMES), entry("stamp", "puts the library's seal on paper")]
SIGNATURES = "lend()\nfind()\norder()\nsort()\nburn()\nstamp()"


def selected_names(budget: int, **context: str) -> list[str]:
    return [entry.name for entry in select_entries(ENTRIES, budget=budget, **context).full]


def test_all_entries_are_selected_if_they_fit_the_budget() -> None:
    choice = select_entries(ENTRIES)

    assert (choice.signatures, choice.full, choice.is_complete) == ("", tuple(ENTRIES), True)
    assert choice.text == "\n\n".join(entry.text for entry in ENTRIES)
    assert select_entries(ENTRIES, budget=len(choice.text)).is_complete
    assert not select_entries(ENTRIES, budget=len(choice.text) - 1).is_complete


def test_entries_are_ranked_by_job_question_log_relevance_and_file_order() -> None:
    about = {
        "code": "burn(x); // lend\nstate.find(1);\nsort (y)",
        "question": "why does order not put the seal on?",
        "log": "TypeError in find",
    }

    assert selected_names(560, **about) == ["burn", "sort", "order", "find", "stamp"]
    assert selected_names(560, code="sort()") == ["sort", "lend", "find", "order", "burn"]


def test_all_signatures_are_included_even_if_no_entry_fits_the_budget() -> None:
    choice = select_entries(ENTRIES, budget=10)

    assert (choice.signatures, choice.full, choice.is_complete) == (SIGNATURES, (), False)


def test_entry_over_the_budget_is_skipped_for_a_smaller_one() -> None:
    large = entry("huge", "x" * 1000)

    choice = select_entries([large, *ENTRIES], code="huge()", budget=len(SIGNATURES) + 7 + 100)

    assert [entry.name for entry in choice.full] == ["lend"]


def test_selection_of_no_entries_is_complete() -> None:
    assert select_entries([]).is_complete
