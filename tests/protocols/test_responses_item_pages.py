"""Responses items of stored messages: their ids, deletion and pagination."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from openai.types.conversations.conversation_item_list import ConversationItemList
from openai.types.responses.response_item_list import ResponseItemList
from pydantic import BaseModel

from palaver.core.dialects import responses as dialect
from palaver.core.fold import fold
from palaver.core.messages import Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.errors import ItemNotFound, PalaverError
from palaver.protocols import openai
from palaver.protocols.responses import adapter as responses
from palaver.protocols.responses import store
from palaver.protocols.responses.request import ResponsesRequest
from palaver.protocols.responses.store import PageQuery
from tests.core.strategies import messages
from tests.protocols.fixed_run import MESSAGE, RUN, json, request, valid_events

RESPONSE_ID = "resp_" + RUN.removeprefix("run_")
CONVERSATION = [
    Message(role="user", parts=(Text(text="Time?"),), id="u1"),
    Message(
        role="assistant",
        parts=(
            Reasoning(text="Hm.", encrypted="sealed"),
            Text(text="Let me see."),
            ToolCall(call_id="c1", name="now", arguments='{"tz":'),
            Text(text="Wait."),
        ),
        id="msg_a1",
    ),
    Message.tool("c1", "noon"),
    Message.user("Thanks."),
]


def item_ids(given: list[Message]) -> list[str]:
    return [item.id for item in store.message_items(given, RESPONSE_ID)]


def list_items(query: PageQuery, given: list[Message] = CONVERSATION) -> Any:
    return json(store.page_response(store.message_items(given, RESPONSE_ID), query))


def query_error(**query: str) -> tuple[str, str]:
    with pytest.raises(PalaverError) as caught:
        store.parse_page_query(request(query=query))
    error = json(openai.error_response(caught.value, status=400))["error"]
    return error["code"], error["param"]


# Items


def test_every_item_has_a_type_and_an_id() -> None:
    text = {"annotations": [], "logprobs": []}
    wanted = [
        {
            "type": "message", "id": "u1", "status": "completed", "role": "user",
            "content": [{"type": "input_text", "text": "Time?"}],
        },
        {
            "type": "reasoning", "id": "rs_a1", "status": "completed",
            "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "sealed",
        },
        {
            "type": "message", "id": "msg_a1", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "Let me see.", **text}],
        },
        {
            "type": "function_call", "id": "fc_c1", "status": "incomplete", "call_id": "c1", "name": "now",
            "arguments": '{"tz":',
        },
        {
            "type": "message", "id": "msg_a1.2", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "Wait.", **text}],
        },
        {"type": "function_call_output", "id": "fco_c1", "status": "completed", "call_id": "c1", "output": "noon"},
        {
            "type": "message", "id": f"{MESSAGE}_i3", "status": "completed", "role": "user",
            "content": [{"type": "input_text", "text": "Thanks."}],
        },
    ]  # fmt: skip
    items = store.message_items(CONVERSATION, RESPONSE_ID)

    assert [one.item for one in items] == wanted
    assert [(one.message, one.parts) for one in items] == [
        (0, (0,)), (1, (0,)), (1, (1,)), (1, (2,)), (1, (3,)), (2, (0,)), (3, (0,)),
    ]  # fmt: skip


def test_stored_items_match_the_output_of_the_response() -> None:
    events = valid_events(
        Reasoning(text="Hm."), "Let me see.", ToolCall(call_id="c1", name="now", arguments="{}"),
        ToolResult(call_id="c1", output={"is": "noon"}), "It is noon.",
    )  # fmt: skip
    output = json(
        responses.encode_response(events, ResponsesRequest(model="tutor", server_tools="function_call"), status=200)
    )["output"]
    items = [one.item for one in store.message_items(fold(events).messages, RESPONSE_ID)]

    assert [{**one, "id": ""} for one in items] == [{**one, "id": ""} for one in output]
    assert [one["id"] for one in items][1:] == [one["id"] for one in output][1:], "all but reasoning, whose id is lost"


def test_items_without_an_id_get_one_derived_from_their_message() -> None:
    raw = {"type": "web_search_call", "id": "ws_1", "action": {}}
    nameless = {"type": "image_generation_call", "id": 5}
    output = Message(
        role="assistant",
        parts=(
            Data(name="chart", value=1),
            Data(name="chart", value=2),
            File(media_type="image/png", url="https://host/a.png"),
            Data(name="responses:web_search_call", value=raw),
            Data(name="responses:image_generation_call", value=nameless),
            Data(name="approval-request", value={"id": "c1", "call_id": "c1", "name": "rm", "arguments": "{}"}),
        ),
        id="msg_a",
    )
    answer = Message.user(Data(name="approval-response", value={"id": "c1", "approve": True, "reason": None}))
    items = [one.item for one in store.message_items([output, answer], RESPONSE_ID)]

    names = ["dat_a", "dat_a.2", "fil_a", "ws_1", "item_a", "c1", f"apr_{RUN.removeprefix('run_')}_i1"]
    assert [item["id"] for item in items] == names
    assert items[3] == raw, "what a provider's tool did stays as it is"


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_empty_message_is_an_item_only_if_the_user_sent_it(role: Any) -> None:
    empty_messages = [Message(role=role, parts=(), id="m"), Message(role=role, parts=(Text(""), Reasoning("")), id="n")]

    assert item_ids(empty_messages) == (["m", "n"] if role == "user" else [])


def test_duplicate_item_ids_get_suffixes_and_long_ones_are_shortened() -> None:
    calls = Message.assistant(ToolCall(call_id="c1", name="now"), ToolCall(call_id="c1", name="now"))
    same = Message(role="user", parts=(Text(text="x"),), id="u1")

    assert item_ids([calls, same, same, replace(same, id="fc_c1"), replace(same, id="u1.2")]) == [
        "fc_c1", "fc_c1.2", "u1", "u1.2", "fc_c1.3", "u1.2.2",
    ]  # fmt: skip
    assert [len(name) for name in item_ids([replace(same, id="x" * 64), replace(same, id="x" * 64)])] == [64, 53]


@given(st.lists(messages, max_size=4))
def test_items_match_the_dialect_and_have_unique_stable_ids(given: list[Message]) -> None:
    items = store.message_items(given, RESPONSE_ID)
    names = [one.id for one in items]
    ignored_keys = ("id", "status", "content")
    bare = [{key: value for key, value in one.item.items() if key not in ignored_keys} for one in items]

    assert bare == [
        {key: value for key, value in item.items() if key not in ignored_keys} for item in dialect.write(given)
    ]
    assert len(set(names)) == len(names)
    assert all(name and len(name) <= 64 for name in names)
    assert store.message_items([*given, Message.user("more")], RESPONSE_ID)[: len(items)] == items, (
        "what is added renames none"
    )


def join_messages(items: list[store.StoredItem]) -> list[dict[str, Any]]:
    """Items without ids, adjacent messages as one: without the item between them they are one."""
    joined: list[dict[str, Any]] = []
    for one in items:
        item = {key: value for key, value in one.item.items() if key != "id"}
        if item["type"] != "message":
            joined.append(item)
        elif joined and joined[-1]["type"] == "message":
            joined[-1] |= {"content": joined[-1]["content"] + item["content"]}
        elif item["content"]:
            joined.append(item)
    return joined


@given(messages, st.data())
def test_removing_an_item_leaves_the_others(message: Message, data: st.DataObject) -> None:
    items = store.message_items([message], RESPONSE_ID)
    assume(items)
    removed = data.draw(st.sampled_from(items))
    shortened = store.without_item(message, removed)
    rewritten = [] if shortened is None else store.message_items([shortened], RESPONSE_ID)

    assert join_messages(rewritten) == join_messages([one for one in items if one is not removed])


def test_item_is_found_by_its_id_and_can_be_removed() -> None:
    items = store.message_items(CONVERSATION, RESPONSE_ID)

    assert store.find_item(items, "fc_c1") is items[3]
    assert json(store.item_response(items[1])) == {
        "type": "reasoning", "id": "rs_a1", "status": "completed", "summary": [{"type": "summary_text", "text": "Hm."}],
    }  # fmt: skip
    with pytest.raises(ItemNotFound, match="Item 'fc_c2' not found"):
        store.find_item(items, "fc_c2")
    assert store.without_item(CONVERSATION[2], items[5]) is None
    assert store.without_item(CONVERSATION[1], items[3]) == replace(
        CONVERSATION[1], parts=(*CONVERSATION[1].parts[:2], CONVERSATION[1].parts[3])
    ), "the rest of the message stays"


# Pages


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, PageQuery(after=None, limit=20, order="desc")),
        ({"after": "msg_1", "limit": "1", "order": "asc"}, PageQuery(after="msg_1", limit=1, order="asc")),
        ({"after": "", "limit": "100", "order": "desc"}, PageQuery(after=None, limit=100, order="desc")),
        ({"include": "reasoning.encrypted_content"}, PageQuery(encrypted=True)),
        ({"include[]": "reasoning.encrypted_content"}, PageQuery(encrypted=True)),
    ],
)
def test_page_query_is_parsed(query: dict[str, str], expected: PageQuery) -> None:
    assert store.parse_page_query(request(query=query)) == expected


@pytest.mark.parametrize(
    ("query", "code", "param"),
    [
        ({"limit": "0"}, "invalid_value", "limit"),
        ({"limit": "101"}, "invalid_value", "limit"),
        ({"limit": "-5"}, "invalid_value", "limit"),
        ({"limit": "ten"}, "invalid_type", "limit"),
        ({"limit": ""}, "invalid_type", "limit"),
        ({"order": "up"}, "invalid_value", "order"),
        ({"after": "x" * 65}, "string_too_long", "after"),
    ],
)
def test_invalid_page_query_is_rejected_with_code_and_param(query: dict[str, str], code: str, param: str) -> None:
    assert query_error(**query) == (code, param)


def test_pages_are_newest_first_and_continue_after_the_cursor() -> None:
    names = [one.id for one in store.message_items(CONVERSATION, RESPONSE_ID)][::-1]
    first, second = list_items(PageQuery(limit=5)), list_items(PageQuery(limit=5, after=names[4]))

    assert [item["id"] for item in first["data"]] == names[:5]
    assert {**first, "data": []} == {
        "object": "list", "data": [], "first_id": names[0], "last_id": names[4], "has_more": True,
    }  # fmt: skip
    assert ([item["id"] for item in second["data"]], second["has_more"]) == (names[5:], False)
    assert [item["id"] for item in list_items(PageQuery(order="asc"))["data"]] == names[::-1]


def test_empty_page_has_no_first_or_last_id() -> None:
    empty_page = {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}

    assert list_items(PageQuery(), []) == empty_page
    assert list_items(PageQuery(after="u1")) == empty_page
    assert json(store.all_items_response([])) == empty_page


def test_added_items_are_all_listed_in_their_order() -> None:
    items = store.message_items(CONVERSATION, RESPONSE_ID)
    added = json(store.all_items_response(items))

    assert (added["first_id"], added["last_id"], added["has_more"]) == ("u1", f"{MESSAGE}_i3", False)
    assert len(added["data"]) == len(items)


def test_encrypted_reasoning_is_listed_only_on_request() -> None:
    output = [list_items(PageQuery(encrypted=encrypted, order="asc"))["data"][1] for encrypted in (False, True)]

    assert [item.get("encrypted_content") for item in output] == [None, "sealed"]


def test_a_page_after_an_unknown_item_is_not_found() -> None:
    with pytest.raises(ItemNotFound) as caught:
        list_items(PageQuery(after="msg_of_somebody_else"))

    assert caught.value.pointer == "/after"


@given(st.lists(messages, max_size=4), st.sampled_from(["asc", "desc"]), st.integers(1, 3))
def test_all_pages_together_hold_every_item_in_order(given: list[Message], order: Any, limit: int) -> None:
    pages = [list_items(PageQuery(limit=limit, order=order), given)]
    while pages[-1]["has_more"]:
        pages.append(list_items(PageQuery(limit=limit, order=order, after=pages[-1]["last_id"]), given))
    names = [item["id"] for page in pages for item in page["data"]]

    assert names == (item_ids(given) if order == "asc" else item_ids(given)[::-1])


def test_refusal_is_listed_as_refusal_content() -> None:
    assert store.message_items([Message.assistant(Refusal(text="No."))], RESPONSE_ID)[0].item["content"] == [
        {"type": "refusal", "refusal": "No."}
    ]


@pytest.mark.parametrize("published", [ResponseItemList, ConversationItemList])
def test_a_page_validates_against_the_types_that_openai_publishes(published: type[BaseModel]) -> None:
    files = (File(media_type="image/png", url="https://host/a.png"), File(media_type="text/plain", file_id="file_1"))
    approval_request = Data(name="approval-request", value={"id": "c9", "name": "rm", "arguments": "{}"})
    approval_response = Data(name="approval-response", value={"id": "c9", "approve": True})
    output = [
        *CONVERSATION, Message.system("Be brief."), Message.user("What is this?", *files),
        Message.assistant(Refusal(text="No."), approval_request), Message.user(approval_response),
    ]  # fmt: skip
    page = store.page_response(store.message_items(output, RESPONSE_ID), PageQuery(order="asc"))

    assert len(published.model_validate_json(page.body).model_dump()["data"]) == 12
