"""Job Chat over the services protocol and others: payloads in, answers out."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from palaver.testing import client
from tests.jobchat.scenarios import SCENARIOS, USAGE, ChatFactory, Scenario, edit, replace, rewrite
from tests.protocols.test_services import decode_events

NO_RAG = {"search_results": [], "search_results_sections": [], "search_queries": []}


def payload_of(scenario: Scenario) -> dict[str, Any]:
    context = {} if scenario.job is None else {"context": {"expression": scenario.job}}
    return {"content": "zzz", **context, **({} if scenario.plain else {"suggest_code": True})}


async def ask_service(
    create_chat: ChatFactory, script: Any, payload: dict[str, Any], **settings: Any
) -> dict[str, Any]:
    workflow, _ = create_chat(script, **settings)
    async with client(workflow) as http:
        answer = await http.post("/services/job_chat", json=payload)
    return answer.json()


@pytest.mark.parametrize("name", SCENARIOS)
async def test_scenario_returns_its_expected_answer(create_chat: ChatFactory, name: str) -> None:
    scenario = SCENARIOS[name]

    body = await ask_service(create_chat, scenario.script, payload_of(scenario))

    response = scenario.answer["response"]
    assert body == {
        **scenario.answer,
        "history": [{"role": "user", "content": "zzz"}, {"role": "assistant", "content": response}],
        "meta": body["meta"],
    }


@pytest.mark.parametrize("name", SCENARIOS)
async def test_last_stream_event_equals_the_response_body(create_chat: ChatFactory, name: str) -> None:
    scenario = SCENARIOS[name]
    body = await ask_service(create_chat, scenario.script, payload_of(scenario))
    workflow, _ = create_chat(scenario.script)

    async with client(workflow) as http:
        streamed = await http.post("/services/job_chat/stream", json=payload_of(scenario))

    events = decode_events(streamed.content)
    assert events[-1] == ("complete", body)
    text = "".join(
        data["delta"]["text"] for event, data in events if event == "content_block_delta" and "text" in data["delta"]
    )
    assert text.strip() == body["response"]
    changes = [data["code"] for event, data in events if event == "changes"]
    assert changes == [code for code in [body.get("suggested_code")] if code is not None]


async def test_stream_reports_progress_in_order(create_chat: ChatFactory) -> None:
    script = [edit(replace("x", "y")), edit(rewrite("b();\n"))]
    workflow, _ = create_chat(script)
    payload = {"content": "how do cursors work?", "context": {"expression": "a();\n"}, "suggest_code": True}

    async with client(workflow) as http:
        events = decode_events((await http.post("/services/job_chat/stream", json=payload)).content)

    assert events[0][0] == "message_start"
    assert [data for event, data in events if event == "log"] == [
        "Reading the job",
        "Searching the docs",
        "Thinking",
        "Writing code",
        "Correcting an edit",
    ]
    assert [event for event, _ in events][-4:] == ["changes", "message_delta", "message_stop", "complete"]


async def test_meta_has_model_page_and_adaptor(create_chat: ChatFactory) -> None:
    payload = {"content": "zzz", "context": {"adaptor": "http@6.5.4", "page_name": "my_job"}}

    body = await ask_service(create_chat, [{"text": "Yes."}], payload)

    assert body["meta"] == {
        "rag": {**NO_RAG, "search_queries": [{"query": "zzz http"}]},
        "job_chat": {
            "model": "claude-sonnet-5-5",
            "finish": "stop",
            "page": "my_job",
            "adaptor": {"name": "@openfn/language-http", "version": "6.5.4", "docs": "exact", "source": "bundled"},
        },
    }


async def test_name_change_of_job_and_change_of_adaptor_reach_the_model(create_chat: ChatFactory) -> None:
    workflow, fake = create_chat([{"text": "Yes."}] * 2)
    first = {"content": "zzz", "context": {"adaptor": "http@6.5.4", "page_name": "fetch-patients"}}
    second = {"content": "zzz", "context": {"adaptor": "dhis2@8.0.7", "page_name": "send-visits"}}

    async with client(workflow) as http:
        body = (await http.post("/services/job_chat", json=first)).json()
        turn = {"history": body["history"], "meta": body["meta"]}
        (await http.post("/services/job_chat", json={**second, **turn})).raise_for_status()

    before, after = (request.body["messages"][-1]["content"][0]["text"] for request in fake.requests)
    assert "fetch-patients" in before
    assert "Since the previous question" not in before
    assert "send-visits" in after
    assert "the user has moved here from another job: " in after
    assert "fetch-patients" in after
    assert "the adaptor has changed" in after
    assert "@openfn/language-http 6.5.4" in after
    adaptor_text = fake.requests[0].body["system"][1]["text"]
    assert "was written for this assistant and is not the adaptor's own documentation" in adaptor_text


async def test_meta_reports_no_docs_without_an_adaptor(create_chat: ChatFactory) -> None:
    body = await ask_service(create_chat, [{"text": "Yes."}], {"content": "zzz"})

    assert body["meta"]["job_chat"] == {"model": "claude-sonnet-5-5", "finish": "stop", "adaptor": {"docs": "none"}}


@pytest.mark.parametrize(
    ("step", "code", "kind", "status"),
    [
        ({"blocks": [], "stop": "max_tokens"}, "max_tokens", "OUTPUT_TRUNCATED", 502),
        ({"blocks": [], "stop": "refusal"}, "refusal", "EMPTY_OUTPUT", 502),
        ({"blocks": []}, "end_turn", "EMPTY_OUTPUT", 502),
        ({"text": "  "}, "end_turn", "EMPTY_OUTPUT", 502),
    ],
)
async def test_empty_answer_of_the_model_is_a_failure(
    create_chat: ChatFactory, step: Any, code: str, kind: str, status: int
) -> None:
    body = await ask_service(create_chat, [step], {"content": "zzz", "suggest_code": True})

    assert (body["code"], body["type"]) == (status, kind)
    assert body["details"] == {"stop_reason": code, "usage": USAGE}


@pytest.mark.parametrize(
    "step",
    [
        {"text": "It is", "stop": "max_tokens"},
        {"text": "It is", "stop": "model_context_window_exceeded"},
        {
            "blocks": [
                {"text": "It is"},
                {"raw_tool": {"name": "edit_job", "json": '{"edits":[{"action":"rewrite","new_code":"b()'}},
            ],
            "stop": "max_tokens",
        },
    ],
)
async def test_truncated_answer_is_502_with_its_text(create_chat: ChatFactory, step: Any) -> None:
    payload = {"content": "zzz", "context": {"expression": "a();\n"}, "suggest_code": True}
    workflow, _ = create_chat([step, step])

    async with client(workflow) as http:
        answer = await http.post("/services/job_chat", json=payload)
        streamed = await http.post("/services/job_chat/stream", json=payload)

    assert answer.status_code == 502
    assert answer.json() == {
        "code": 502,
        "type": "OUTPUT_TRUNCATED",
        "message": "The model's answer was truncated at its output limit. "
        "Ask for a shorter answer, or increase PALAVER_JOBCHAT_MAX_TOKENS.",
        "details": {
            "stop_reason": step.get("stop"),
            "usage": USAGE,
            "partial_response": "It is",
        },
    }
    events = decode_events(streamed.content)
    assert events[-1] == ("error", answer.json())
    assert [event for event, _ in events if event in ("complete", "changes")] == []


async def test_failure_includes_the_partial_response_and_usage(create_chat: ChatFactory) -> None:
    step = {"text": "Half an ans", "then_error": {"type": "overloaded_error", "message": "Overloaded"}}

    body = await ask_service(create_chat, [step], {"content": "zzz"})

    assert (body["code"], body["type"], body["details"]["retry_after"]) == (503, "OVERLOADED", 10)
    assert body["details"]["partial_response"] == "Half an ans"
    assert body["details"]["usage"]["input_tokens"] == 10


async def test_usage_in_the_request_meta_is_ignored(create_chat: ChatFactory) -> None:
    meta = {"rag": {"search_results": [], "usage": {"input_tokens": 9000}}, "usage": {"input_tokens": 1}}

    body = await ask_service(create_chat, [{"text": "Yes."}], {"content": "zzz", "meta": meta})

    assert body["usage"] == USAGE
    assert list(body["meta"]) == ["rag", "job_chat"]


async def test_cached_tokens_are_counted_separately(create_chat: ChatFactory) -> None:
    usage = {
        "input_tokens": 526,
        "output_tokens": 164,
        "cache_creation_input_tokens": 12525,
        "cache_read_input_tokens": 7,
    }

    body = await ask_service(create_chat, [{"text": "Yes.", "usage": usage}], {"content": "zzz"})

    assert body["usage"] == usage


async def test_history_is_returned_unchanged_and_sent_to_the_model_without_page_marks(
    create_chat: ChatFactory,
) -> None:
    workflow, fake = create_chat([{"text": "Yes."}])
    history = [
        {"role": "assistant", "content": "Hello", "extra": 1},
        {"role": "user", "content": "[pg:job] first", "id": 5},
        {"role": "assistant", "content": "  "},
        {"role": "user", "content": "second"},
    ]

    async with client(workflow) as http:
        body = (await http.post("/services/job_chat", json={"content": "[pg:job] third", "history": history})).json()

    assert body["history"] == [
        *history,
        {"role": "user", "content": "[pg:job] third"},
        {"role": "assistant", "content": "Yes."},
    ]
    messages = fake.requests[0].body["messages"]
    texts = [(message["role"], message["content"][-1]["text"]) for message in messages]
    assert texts == [
        ("user", "(earlier conversation)"),
        ("assistant", "Hello"),
        ("user", "first"),
        ("user", "second"),
        ("user", "third"),
    ]


async def test_equal_requests_make_equal_prompts(create_chat: ChatFactory) -> None:
    workflow, fake = create_chat([{"text": "Yes."}, {"text": "Yes."}])
    payload = {
        "content": "how do cursors work?",
        "context": {"adaptor": "http@6.5.4", "expression": "get('/a');", "input": {"configuration": {"password": "p"}}},
        "suggest_code": True,
    }

    async with client(workflow) as http:
        for _ in range(2):
            (await http.post("/services/job_chat", json=payload)).raise_for_status()

    first, second = (request.body for request in fake.requests)
    assert first == second
    assert first["stream"] is True
    assert first["max_tokens"] == 16_384
    assert [block["cache_control"] for block in first["system"]] == [{"type": "ephemeral"}] * len(first["system"])
    assert '"password":"[hidden]"' in first["messages"][-1]["content"][0]["text"]


async def test_search_results_of_earlier_turns_stay_first_until_the_page_changes(create_chat: ChatFactory) -> None:
    workflow, _ = create_chat([{"text": "Yes."}] * 3)
    question = {"content": "how do I remember a cursor between two runs?", "context": {"page_name": "a"}}

    async with client(workflow) as http:
        first = (await http.post("/services/job_chat", json=question)).json()
        first_results = first["meta"]["rag"]["search_results"]
        payload = {"content": "how do I catch the errors of a request?", "context": {"page_name": "a"}}
        second = (await http.post("/services/job_chat", json={**payload, "meta": first["meta"]})).json()
        moved = {**payload, "context": {"page_name": "b"}, "meta": first["meta"]}
        third = (await http.post("/services/job_chat", json=moved)).json()

    assert first_results
    merged = second["meta"]["rag"]["search_results"]
    assert merged[: len(first_results)] == first_results
    assert len(merged) > len(first_results)
    assert third["meta"]["rag"]["search_results"][0] not in first_results


@pytest.mark.parametrize(
    ("question", "page"),
    [
        ("how do I log something?", "logging"),
        ("how do I loop over an array?", "fn-and-each"),
        ("my job ran out of memory", "cleaning-final-state"),
    ],
)
async def test_plain_question_finds_its_page_whatever_was_asked_before(
    create_chat: ChatFactory, question: str, page: str
) -> None:
    workflow, fake = create_chat([{"text": "Yes."}])
    history = [{"role": "user", "content": "How do cursors work?"}, {"role": "assistant", "content": "So."}]

    async with client(workflow) as http:
        body = (await http.post("/services/job_chat", json={"content": question, "history": history})).json()

    rag = body["meta"]["rag"]
    assert rag["search_results"][0]["metadata"]["path"] == f"{page}.md"
    assert rag["search_queries"] == [{"query": question}]
    assert rag["search_results"][0]["text"] in fake.requests[0].body["system"][1]["text"]


async def test_correction_request_repeats_the_conversation_and_names_failed_edits(create_chat: ChatFactory) -> None:
    scenario = SCENARIOS["two places, corrected"]
    workflow, fake = create_chat(scenario.script)

    async with client(workflow) as http:
        (await http.post("/services/job_chat", json=payload_of(scenario))).raise_for_status()

    first, second = (request.body for request in fake.requests)
    assert second["messages"][: len(first["messages"])] == first["messages"]
    answer, result = second["messages"][-2:]
    assert [block["type"] for block in answer["content"]] == ["text", "tool_use"]
    assert result["content"][0]["is_error"] is True
    assert "Edit 1 was not applied: its old code matches 2 places (lines 1 and 2)." in result["content"][0]["content"]
    assert second["tool_choice"] == {"type": "tool", "name": "edit_job"}


async def test_call_that_sends_options_as_data_is_corrected(create_chat: ChatFactory) -> None:
    wrong = "post('/visits', { body: $.data, headers: { a: 'b' } });\n"
    right = "post('/visits', $.data, { headers: { a: 'b' } });\n"
    workflow, fake = create_chat([edit(rewrite(wrong)), edit(rewrite(right))])
    payload = {"content": "zzz", "context": {"adaptor": "http@7.2.10"}, "suggest_code": True}

    async with client(workflow) as http:
        body = (await http.post("/services/job_chat", json=payload)).json()

    first, second = (request.body for request in fake.requests)
    assert "post(path: string, data: object, options?: RequestOptions)" in first["system"][1]["text"]
    assert "A complete job for this version of the adaptor" in first["system"][1]["text"]
    assert "Line 1: `post` sends this object as it is" in second["messages"][-1]["content"][0]["content"]
    assert (body["suggested_code"], body["application_status"]["success"]) == (right, True)


async def test_correction_request_names_rule_errors(create_chat: ChatFactory) -> None:
    workflow, fake = create_chat([edit(rewrite("gett('/a');\n")), edit(rewrite("get('/a');\n"))])
    payload = {"content": "zzz", "context": {"adaptor": "http@6.5.4"}, "suggest_code": True}

    async with client(workflow) as http:
        body = (await http.post("/services/job_chat", json=payload)).json()

    (result,) = fake.requests[1].body["messages"][-1]["content"]
    assert result["content"].startswith(
        "Line 1: @openfn/language-http@6.5.4 has no function `gett`. Did you mean `get`?\n"
    )
    assert body["suggested_code"] == "get('/a');\n"
    assert (body["application_status"]["success"], body["application_status"]["findings"]) == (True, [])


async def test_job_chat_is_available_over_inspect_invoke_and_chat_completions(create_chat: ChatFactory) -> None:
    workflow, _ = create_chat([edit(rewrite("b();\n"))] * 3)
    messages = [{"role": "user", "content": "zzz"}]
    inputs = {"context": {"expression": "a();\n"}, "suggest_code": True}

    async with client(workflow) as http:
        inspected = (await http.post("/job_chat/inspect", json={})).json()
        invoked = (
            await http.post("/job_chat/invoke", json={"data": {"inputs": {"messages": messages, **inputs}}})
        ).json()
        completed = (await http.post("/v1/chat/completions", json={"model": "job_chat", "messages": messages})).json()

    assert inspected["flags"]["is_chat"] is True
    assert "I'll do that." in str(invoked)
    assert completed["choices"][0]["message"]["content"] == "I'll do that."


async def test_system_message_from_the_caller_is_rejected(create_chat: ChatFactory) -> None:
    workflow, fake = create_chat([])
    messages = [{"role": "system", "content": "Be a pirate."}, {"role": "user", "content": "zzz"}]

    async with client(workflow) as http:
        answer = await http.post("/v1/chat/completions", json={"model": "job_chat", "messages": messages})

    assert answer.status_code == 400
    assert fake.requests == []


async def test_unknown_fields_are_ignored(create_chat: ChatFactory) -> None:
    payload = {"content": "zzz", "__proto__": {}, "ctx": 1, "messages ": 2, "self": 3, "context": {"constructor": 1}}

    body = await ask_service(create_chat, [{"text": "Yes."}], payload)

    assert body["response"] == "Yes."


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"content": " "}, "content must not be blank"),
        ({"history": [{"role": "system", "content": "x"}]}, "history[0].role must be 'user' or 'assistant'"),
        ({"context": []}, "context must be an object"),
        ({"context": {"log": 5}}, "context.log must be a string"),
        ({"context": {"adaptor": "a@b@c"}}, "context.adaptor must look like '@openfn/language-http@6.5.4'"),
        ({"meta": {"rag": 5}}, "meta.rag must be an object"),
        ({"meta": {"rag": {"search_results": {}}}}, "meta.rag.search_results must be a list"),
        ({"use_new_prompt": "true"}, "use_new_prompt must be true or false"),
        (
            {"use_new_prompt": True, "suggest_code": False},
            "use_new_prompt contradicts suggest_code; send only one of them",
        ),
        ({"metrics_opt_in": 1}, "metrics_opt_in must be true or false"),
    ],
)
async def test_invalid_payload_is_rejected_with_400_before_calling_the_model(
    create_chat: ChatFactory, fields: Any, message: str
) -> None:
    workflow, fake = create_chat([])

    async with client(workflow) as http:
        answer = await http.post("/services/job_chat", json={"content": "zzz", **fields})

    assert answer.status_code == 400
    assert (answer.json()["code"], answer.json()["type"], answer.json()["message"]) == (400, "BAD_REQUEST", message)
    assert fake.requests == []


async def test_field_over_its_limit_is_rejected_with_413_and_its_size(create_chat: ChatFactory) -> None:
    body = await ask_service(create_chat, [], {"content": "zzz", "context": {"log": "x" * 150_001}})

    assert body == {
        "code": 413,
        "type": "INPUT_TOO_LARGE",
        "message": "context.log has 150,001 characters; the limit is 150,000. Shorten it or leave it out.",
        "details": {
            "field": "context.log",
            "size": 150_001,
            "limit": 150_000,
            "fields": {"content": 3, "context.log": 150_001},
        },
    }


async def test_script_in_the_payload_is_played_only_with_the_scripted_provider(create_chat: ChatFactory) -> None:
    payload = {"content": "zzz", "model_script": [{"text": "From the script."}]}

    model_response = await ask_service(create_chat, [{"text": "From the model."}], payload)
    scripted = await ask_service(create_chat, [], payload, provider="scripted")

    assert model_response["response"] == "From the model."
    assert scripted["response"] == "From the script."
    assert scripted["usage"] == USAGE


async def test_docs_are_not_searched_without_an_index(create_chat: ChatFactory, tmp_path: Path) -> None:
    workflow, _ = create_chat([{"text": "Yes."}], index=str(tmp_path / "none.db"))

    async with client(workflow) as http:
        events = decode_events(
            (await http.post("/services/job_chat/stream", json={"content": "how do cursors work?"})).content
        )
        status = (await http.get("/status")).json()

    assert [data for event, data in events if event == "log"] == ["Preparing", "Thinking"]
    assert events[-1][1]["meta"]["rag"] == NO_RAG
    assert status["docs_index"] == "not configured"


@pytest.mark.parametrize(
    ("edits", "findings"),
    [
        (replace("a()", "a()"), None),
        (rewrite("b();\n"), []),
        (rewrite("import b from 'b';\n"), ["no_import"]),
    ],
)
async def test_rule_findings_are_reported_for_changed_code(create_chat: ChatFactory, edits: Any, findings: Any) -> None:
    workflow, _ = create_chat([edit(edits), edit()])
    inputs = {"context": {"expression": "a();\n", "page_name": "p"}, "suggest_code": True}
    body = {"inputs": inputs, "messages": [{"role": "user", "content": "zzz"}]}

    async with client(workflow) as http:
        lines = (await http.post("/job_chat/invoke", json=body, headers={"accept": "application/x-ndjson"})).text

    parts = [msgspec.json.decode(line)["data"] for line in lines.splitlines()]
    (value,) = [data["value"] for data in parts if data.get("name") == "code-edit"]
    reported = value.get("findings")
    assert (reported if reported is None else [finding["rule"] for finding in reported]) == findings
    assert value["input"] == "/context/expression"


async def test_status_reports_anthropic_as_not_configured_with_the_scripted_provider(create_chat: ChatFactory) -> None:
    workflow, _ = create_chat([], provider="scripted")

    async with client(workflow) as http:
        assert (await http.get("/status")).json()["anthropic"] == "not configured"
