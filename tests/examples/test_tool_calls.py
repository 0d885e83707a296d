"""examples/tool_calls.py: both tools are called, and their results appear in the answer."""

from palaver.testing import client
from tests.examples.conftest import Example
from tests.examples.server_calls import complete_chat, create_response, invoke


def tool_call(name: str, item: str) -> dict[str, object]:
    return {
        "id": f"{name}_1",
        "type": "function",
        "function": {"name": name, "arguments": f'{{"item": "{item}"}}'},
    }


async def test_the_answer_contains_the_results_of_both_tools(example: Example) -> None:
    async with client(*example("tool_calls")) as http:
        messages = await invoke(http, "shop", "Pen?")
        _, items = await create_response(http, "shop", "Book?")
        answer = await complete_chat(http, "shop", "book")

    assert messages == [
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [tool_call("price", "pen"), tool_call("stock", "pen")],
        },
        {"role": "tool", "tool_call_id": "price_1", "content": "1.2"},
        {"role": "tool", "tool_call_id": "stock_1", "content": "40"},
        {"role": "assistant", "content": "It costs 1.20, and we have 40 in stock."},
    ]
    assert items == [
        ("message", "Let me look."),
        ("call", "price", '{"item": "book"}', "9.5"),
        ("call", "stock", '{"item": "book"}', "3"),
        ("message", "It costs 9.50, and we have 3 in stock."),
    ]
    assert answer == ("Let me look.\n\nIt costs 9.50, and we have 3 in stock.", "stop")


async def test_a_failed_tool_call_is_returned_to_the_model_as_an_error(example: Example) -> None:
    async with client(*example("tool_calls")) as http:
        messages = await invoke(http, "shop", "unicorn")

    assert messages == [
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [tool_call("price", "unicorn"), tool_call("stock", "unicorn")],
        },
        *(
            {
                "role": "tool",
                "tool_call_id": call,
                "content": "KeyError: 'unicorn'",
                "palaver": {"is_error": True},
            }
            for call in ("price_1", "stock_1")
        ),
        {"role": "assistant", "content": "We don't have that."},
    ]


async def test_a_second_question_makes_new_tool_calls(example: Example) -> None:
    async with client(*example("tool_calls")) as http:
        first, _ = await create_response(http, "shop", "pen")
        _, items = await create_response(http, "shop", "book", previous_response_id=first)

    assert items[-1] == ("message", "It costs 9.50, and we have 3 in stock.")
    assert [item[1:3] for item in items if item[0] == "call"] == [
        ("price", '{"item": "book"}'),
        ("stock", '{"item": "book"}'),
    ]
