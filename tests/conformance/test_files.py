"""openai for Python references stored files by their ids, in Chat Completions and in Responses."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.conformance.stored_server import StoredServer, error_fields

PNG = b"\x89PNG\r\n\x1a\n" + b"sky" * 20
UNKNOWN_FILE = "file_01k00000000000000000000000"


@pytest.fixture
def client(keeper: StoredServer) -> Iterator[openai.OpenAI]:
    with keeper.openai() as client:
        yield client


def upload_file(keeper: StoredServer) -> str:
    headers = {**keeper.headers, "content-type": "image/png", "x-palaver-filename": "sky.png"}
    answer = httpx.post(f"{keeper.url}/api/files", content=PNG, headers=headers, timeout=30)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def ask_chat_completions(client: openai.OpenAI, model: str, file: str) -> str:
    content: Any = [{"type": "text", "text": "What is it?"}, {"type": "file", "file": {"file_id": file}}]
    answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": content}])
    return answer.choices[0].message.content or ""


def responses_asker(kind: str) -> Callable[[openai.OpenAI, str, str], str]:
    def ask(client: openai.OpenAI, model: str, file: str) -> str:
        content: Any = [{"type": "input_text", "text": "What is it?"}, {"type": kind, "file_id": file}]
        return client.responses.create(model=model, input=[{"role": "user", "content": content}]).output_text

    return ask


AskFunction = Callable[[openai.OpenAI, str, str], str]
ASK_FUNCTIONS = {
    "completions": (ask_chat_completions, "messages[0].content[1].file.file_id"),
    "a file": (responses_asker("input_file"), "input[0].content[1].file_id"),
    "an image": (responses_asker("input_image"), "input[0].content[1].file_id"),
}


@pytest.mark.parametrize(("ask", "error_param"), ASK_FUNCTIONS.values(), ids=ASK_FUNCTIONS)
def test_a_stored_file_can_be_referenced_by_its_id_within_its_project(
    keeper: StoredServer, client: openai.OpenAI, ask: AskFunction, error_param: str
) -> None:
    file = upload_file(keeper)

    weighed, looked_at = (json.loads(ask(client, model, file)) for model in ("weighed", "looked_at"))

    assert weighed == [["image/png", "sky.png", len(PNG)]]
    picture = looked_at[0]["content"][1]["image_url"]["url"]
    assert picture == f"data:image/png;base64,{b64encode(PNG).decode()}"
    with keeper.openai(key=keeper.other_key) as other_client:
        refusals = []
        for api_client, name in ((client, UNKNOWN_FILE), (other_client, file)):
            with pytest.raises(openai.NotFoundError) as raised:
                ask(api_client, "weighed", name)
            refusals.append(error_fields(raised.value))
    assert refusals == [{"status": 404, "type": "not_found", "code": "not_found", "param": error_param}] * 2


def test_a_file_of_a_conversation_is_deleted_with_the_conversation(keeper: StoredServer, client: openai.OpenAI) -> None:
    file = upload_file(keeper)
    items: Any = [{"role": "user", "content": [{"type": "input_file", "file_id": file}]}]
    conversation = client.conversations.create(items=items)
    answers = [client.responses.create(model="weighed", conversation=conversation.id, input="Well?") for _ in range(2)]

    assert [json.loads(answer.output_text) for answer in answers] == [[["image/png", "sky.png", len(PNG)]]] * 2
    client.conversations.delete(conversation.id)
    with pytest.raises(openai.NotFoundError):
        ask_chat_completions(client, "weighed", file)
