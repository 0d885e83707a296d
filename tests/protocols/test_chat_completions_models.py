"""GET /v1/models: the served chats."""

import pytest

from palaver.core.descriptions import Description
from palaver.protocols import openai
from palaver.protocols.chat_completions.models import ModelNotFound, model_response, models_response
from tests.protocols.fixed_run import CHAT, FORM, json

ABACUS = Description(name="abacus", flags={"is_chat": True})


def test_models_list_holds_only_chat_workflows_sorted_by_name() -> None:
    answer = models_response([CHAT, FORM, ABACUS], 1763190000)

    assert (answer.status, answer.headers) == (200, (("content-type", "application/json"),))
    assert json(answer) == {
        "object": "list",
        "data": [
            {"id": "abacus", "object": "model", "created": 1763190000, "owned_by": "palaver"},
            {"id": "tutor", "object": "model", "created": 1763190000, "owned_by": "palaver"},
        ],
    }


def test_models_list_is_empty_if_no_workflow_is_served() -> None:
    assert json(models_response([], 0)) == {"object": "list", "data": []}


def test_model_response_describes_one_chat() -> None:
    assert json(model_response(CHAT, 7)) == {
        "id": "tutor",
        "object": "model",
        "created": 7,
        "owned_by": "palaver",
    }


def test_a_workflow_that_is_not_a_chat_is_not_found_as_a_model() -> None:
    with pytest.raises(ModelNotFound) as raised:
        model_response(FORM, 7)

    message = "Model 'headline' not found: the workflow is not a chat."
    document = {"message": message, "type": "not_found", "code": "model_not_found", "param": None}
    assert json(openai.error_response(raised.value, status=404)) == {"error": document, "detail": message}
