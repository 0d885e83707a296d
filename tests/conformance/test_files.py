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


def test_files_are_created_listed_retrieved_downloaded_and_deleted(keeper: StoredServer, client: openai.OpenAI) -> None:
    with keeper.openai(key=keeper.other_key) as other_client:
        ids = [
            client.files.create(file=(f"{purpose}.png", PNG), purpose=purpose).id
            for purpose in ("user_data", "vision", "assistants")
        ]

        file = client.files.retrieve(ids[1])
        assert (file.id, file.object, file.bytes, file.filename) == (ids[1], "file", len(PNG), "vision.png")
        assert (file.purpose, file.status, file.expires_at) == ("vision", "processed", None)
        assert client.files.content(file.id).read() == PNG
        assert file in client.files.list(purpose="vision").data
        listed = [entry.id for entry in client.files.list(limit=2) if entry.id in ids]  # Reads all pages.
        assert listed == ids[::-1]
        assert [entry.id for entry in client.files.list(limit=2, order="asc") if entry.id in ids] == ids
        assert other_client.files.list().data == []
        for refused in (other_client.files.retrieve, other_client.files.content, other_client.files.delete):
            with pytest.raises(openai.NotFoundError):
                refused(file.id)
        assert client.files.delete(file.id).to_dict() == {"id": file.id, "object": "file", "deleted": True}
        with pytest.raises(openai.NotFoundError):
            client.files.retrieve(file.id)


@pytest.mark.parametrize(("ask", "_"), ASK_FUNCTIONS.values(), ids=ASK_FUNCTIONS)
def test_an_uploaded_file_reaches_the_workflow_and_is_kept_until_it_is_deleted(
    keeper: StoredServer, client: openai.OpenAI, ask: AskFunction, _: str
) -> None:
    file = client.files.create(file=("sky.png", PNG), purpose="user_data").id

    answers = [json.loads(ask(client, "weighed", file)) for _ in range(2)]

    assert answers == [[["image/png", "sky.png", len(PNG)]]] * 2
    client.files.delete(file)
    with pytest.raises(openai.NotFoundError):
        ask(client, "weighed", file)


def test_an_uploaded_file_outlives_the_response_that_refers_to_it(keeper: StoredServer, client: openai.OpenAI) -> None:
    file = client.files.create(file=("sky.png", PNG), purpose="user_data").id
    items: Any = [{"role": "user", "content": [{"type": "input_file", "file_id": file}]}]

    client.responses.delete(client.responses.create(model="weighed", input=items).id)

    assert client.files.content(file).read() == PNG


def test_files_below_a_workflow_are_those_of_the_project(keeper: StoredServer, client: openai.OpenAI) -> None:
    below = client.with_options(base_url=f"{keeper.url}/weighed/v1")
    file = below.files.create(file=("sky.png", PNG), purpose="user_data").id

    assert below.files.content(file).read() == client.files.content(file).read() == PNG
    assert json.loads(ask_chat_completions(below, "weighed", file)) == [["image/png", "sky.png", len(PNG)]]
    with pytest.raises(openai.NotFoundError):
        client.with_options(base_url=f"{keeper.url}/nobody/v1").files.list()


def test_a_file_of_a_conversation_is_deleted_with_the_conversation(keeper: StoredServer, client: openai.OpenAI) -> None:
    file = upload_file(keeper)
    items: Any = [{"role": "user", "content": [{"type": "input_file", "file_id": file}]}]
    conversation = client.conversations.create(items=items)
    answers = [client.responses.create(model="weighed", conversation=conversation.id, input="Well?") for _ in range(2)]

    assert [json.loads(answer.output_text) for answer in answers] == [[["image/png", "sky.png", len(PNG)]]] * 2
    client.conversations.delete(conversation.id)
    with pytest.raises(openai.NotFoundError):
        ask_chat_completions(client, "weighed", file)
