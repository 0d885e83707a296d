"""Payloads: accepted fields, limits and error messages."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver import Failure
from palaver_jobchat.adaptors.names import Adaptor
from palaver_jobchat.payload import JobContext, Payload, PayloadLimits, PreviousTopic, Turn, parse_payload


def parse_failure(body: Any, limits: PayloadLimits | None = None) -> Failure:
    with pytest.raises(Failure) as caught:
        parse_payload(body, limits or PayloadLimits())
    return caught.value


def test_content_is_the_only_required_field() -> None:
    assert parse_payload({"content": "why?"}) == Payload(content="why?")


def test_all_known_fields_are_parsed_and_unknown_ones_ignored() -> None:
    body = {
        "content": "how?",
        "history": [{"role": "user", "content": "a", "id": 7}, {"role": "assistant", "content": " "}],
        "context": {
            "expression": "get('/a')",
            "adaptor": "http@6.5.4",
            "page_name": "my_job",
            "input": {"data": {"é": [1, 2.5, None]}},
            "output": "as it is",
            "log": "oh",
            "__proto__": 1,
        },
        "meta": {
            "rag": {"search_results": [{"text": "x"}, 3], "usage": {"input_tokens": 5}},
            "job_chat": {"page": "other", "adaptor": {"name": "@openfn/language-http", "version": "6.0.0"}},
            "user": {"id": "u"},
        },
        "use_new_prompt": True,
        "suggest_code": True,
        "stream": False,
        "download_adaptor_docs": False,
        "refresh_rag": True,
        "rehearsal": True,
        "metrics_opt_in": "the wire's own",
        "api_key": 5,
        "anything": [],
    }

    assert parse_payload(body) == Payload(
        content="how?",
        history=(Turn("user", "a"), Turn("assistant", " ")),
        context=JobContext(
            expression="get('/a')",
            adaptor=Adaptor("@openfn/language-http", "6.5.4"),
            page="my_job",
            input='{"data":{"é":[1,2.5,null]}}',
            output="as it is",
            log="oh",
        ),
        results=({"text": "x"}, 3),
        previous_topic=PreviousTopic(page="other", adaptor="@openfn/language-http", version="6.0.0"),
        mode="edits",
        download_adaptor_docs=False,
        refresh_rag=True,
        rehearsal=True,
    )


def test_null_is_the_same_as_absent() -> None:
    nulls: dict[str, Any] = dict.fromkeys(
        ["history", "context", "meta", "use_new_prompt", "suggest_code", "rehearsal", "refresh_rag"]
    )
    empty: dict[str, Any] = dict.fromkeys(["expression", "adaptor", "page_name", "input", "output", "log"])

    assert parse_payload({"content": "a", **nulls}) == Payload(content="a")
    assert parse_payload({"content": "a", "context": empty, "meta": {"rag": None}}) == Payload(content="a")
    assert parse_payload({"content": "a", "context": {"adaptor": " "}, "meta": {"rag": {}}}) == Payload(content="a")


@pytest.mark.parametrize("meta", [None, [], "x", {"adaptor": "http", "page": 5}])
def test_job_chat_metadata_of_another_shape_is_ignored(meta: Any) -> None:
    assert parse_payload({"content": "a", "meta": {"job_chat": meta}}).previous_topic in (None, PreviousTopic())


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"content": None}, "content", "must be a non-blank string"),
        ({"content": 5}, "content", "must be a non-blank string"),
        ({"content": " \n"}, "content", "must be a non-blank string"),
        ({"history": {}}, "history", "must be a list"),
        ({"history": ["a"]}, "history[0]", "must be an object"),
        ({"history": [{"role": "system", "content": ""}]}, "history[0].role", "must be 'user' or 'assistant'"),
        ({"history": [{"role": [], "content": ""}]}, "history[0].role", "must be 'user' or 'assistant'"),
        ({"history": [{"role": "user"}]}, "history[0].content", "must be a string"),
        ({"context": []}, "context", "must be an object"),
        ({"context": {"expression": 1}}, "context.expression", "must be a string"),
        ({"context": {"log": {}}}, "context.log", "must be a string"),
        ({"context": {"page_name": []}}, "context.page_name", "must be a string"),
        ({"context": {"adaptor": 6}}, "context.adaptor", "must be a string"),
        ({"context": {"adaptor": "a@b@c"}}, "context.adaptor", "must look like '@openfn/language-http@6.5.4'"),
        ({"meta": "x"}, "meta", "must be an object"),
        ({"meta": {"rag": []}}, "meta.rag", "must be an object"),
        ({"meta": {"rag": {"search_results": {}}}}, "meta.rag.search_results", "must be a list"),
        ({"use_new_prompt": "true"}, "use_new_prompt", "must be true or false"),
        ({"refresh_rag": 1}, "refresh_rag", "must be true or false"),
        (
            {"use_new_prompt": True, "suggest_code": False},
            "use_new_prompt",
            "contradicts suggest_code; send only one of them",
        ),
    ],
)
def test_invalid_field_is_rejected_with_its_path_and_a_message(body: dict[str, Any], field: str, message: str) -> None:
    failure = parse_failure({"content": "a", **body})

    assert (failure.code, failure.status, failure.message) == ("bad_request", 400, f"{field} {message}")
    assert failure.details == {"errors": [{"field": field, "message": message}]}


def test_all_invalid_fields_are_reported_at_once() -> None:
    failure = parse_failure({"history": [{}, 1], "context": {"log": 1}, "rehearsal": 0})

    assert failure.message == "content must be a non-blank string"
    assert [error["field"] for error in failure.details["errors"]] == [
        "content",
        "history[0].role",
        "history[0].content",
        "history[1]",
        "context.log",
        "rehearsal",
    ]


def test_page_marks_stay_in_the_content_and_are_removed_from_questions() -> None:
    history = [{"role": "user", "content": "[pg:a] how?"}, {"role": "user", "content": "[pg:a]"}]

    payload = parse_payload({"content": "[pg:b] why?", "history": history})

    assert (payload.content, payload.question, payload.previous_question) == ("[pg:b] why?", "why?", "how?")
    assert (parse_payload({"content": "[pg:b]  "}).question, parse_payload({"content": "a"}).previous_question) == (
        "[pg:b]  ",
        None,
    )


@pytest.mark.parametrize("body", [None, [], "x", 5])
def test_payload_that_is_not_an_object_is_rejected(body: Any) -> None:
    assert parse_failure(body).message == "The payload must be a JSON object."


@pytest.mark.parametrize(
    ("new", "suggest", "mode"),
    [
        (None, None, "plain"),
        (False, None, "plain"),
        (None, False, "plain"),
        (False, False, "plain"),
        (True, None, "edits"),
        (None, True, "edits"),
        (True, True, "edits"),
    ],
)
def test_use_new_prompt_and_suggest_code_both_turn_on_edits(new: bool | None, suggest: bool | None, mode: str) -> None:
    assert parse_payload({"content": "a", "use_new_prompt": new, "suggest_code": suggest}).mode == mode


def test_field_over_its_limit_is_rejected_with_413() -> None:
    failure = parse_failure({"content": "why?", "context": {"log": "x" * 412_338}})

    assert (failure.code, failure.status) == ("input_too_large", 413)
    assert failure.message == ("context.log has 412,338 characters; the limit is 150,000. Shorten it or leave it out.")
    assert failure.details == {
        "field": "context.log",
        "size": 412_338,
        "limit": 150_000,
        "fields": {"content": 4, "context.log": 412_338},
    }


def test_history_limit_counts_the_contents_of_all_turns() -> None:
    turn = {"role": "user", "content": "abc"}

    failure = parse_failure({"content": "a", "history": [turn, turn]}, PayloadLimits(history=5))

    assert (failure.details["field"], failure.details["size"]) == ("history", 6)


def test_total_size_of_all_fields_is_limited() -> None:
    failure = parse_failure({"content": "abc", "context": {"input": {"a": 1}, "log": "ab"}}, PayloadLimits(total=11))

    assert failure.message == (
        "The payload has 12 characters in total; the limit is 11. Shorten context.input, the largest field."
    )
    assert failure.details == {
        "field": "context.input",
        "size": 12,
        "limit": 11,
        "fields": {"content": 3, "context.input": 7, "context.log": 2},
    }


KEYS = ["content", "history", "context", "meta", "rag", "search_results", "role", "adaptor", "input", "suggest_code"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["user", "http@6"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
        max_leaves=15,
    )
)
def test_any_json_is_parsed_or_rejected_with_400(body: Any) -> None:
    failure = None
    try:
        payload = parse_payload(body)
    except Failure as error:
        failure = error
    else:
        assert payload.content == body["content"]
    if failure is not None:
        assert failure.status == 400
        assert msgspec.json.encode(dict(failure.details))
