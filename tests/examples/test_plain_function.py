"""examples/plain_function.py: one function, called over three protocols, and with an invalid request."""

from palaver.testing import client
from tests.examples.conftest import Example
from tests.examples.server_calls import create_response

INPUTS = {"amount": 60.0, "people": 4}


async def test_the_bill_is_split_over_invoke_run_and_responses(example: Example) -> None:
    async with client(*example("plain_function")) as http:
        invoked = await http.post("/split_bill/invoke", json={"inputs": INPUTS, "parameters": {"tip": 20.0}})
        ran = await http.post("/split_bill/run", json={"inputs": INPUTS})
        _, items = await create_response(http, "split_bill", [], custom_inputs=INPUTS)

    assert invoked.json() == {"total": 72.0, "each": 18.0}
    assert ran.json()["data"] == {"total": 66.0, "each": 16.5}
    assert items == [
        ("message", '{"total":66.0,"each":16.5}'),
        ("data", "output", {"total": 66.0, "each": 16.5}),
    ]


async def test_invalid_inputs_and_parameters_are_rejected(example: Example) -> None:
    async with client(*example("plain_function")) as http:
        invalid = {"inputs": {"amount": "60"}, "parameters": {"tip": "much"}}
        mistyped = await http.post("/split_bill/invoke", json=invalid)
        no_people = await http.post("/split_bill/invoke", json={"inputs": {"amount": 60, "people": 0}})

    assert (mistyped.status_code, no_people.status_code) == (422, 422)
    assert [fault["message"] for fault in mistyped.json()["status"]["errors"]] == [
        "Input 'amount' must be a number, not a string.",
        "Parameter 'tip' must be a number, not a string.",
    ]
    assert no_people.json()["status"] == {
        "code": 422,
        "type": "nobody_pays",
        "message": "At least one person has to pay the bill.",
    }
