"""webhook: the case is sent signed to a web service, its answer is parsed, and addresses are checked."""

import hmac
from typing import Any

import pytest

from palaver.errors import InvalidValue, PalaverError
from palaver.evaluation.evaluators import built_in
from tests.evaluation.evaluator_helpers import answer
from tests.evaluation.fake_services import ENV, Reply, make_context, score_in_context, service

CASE = answer("Paris.", expected="Paris", inputs={"city": "France"}, usage={"input_tokens": 3}, latency=0.5)
CONTEXT = make_context(allow_private=True)
UNREADABLE_REASON = "webhook_failed: The service returned an invalid response:"


async def score_reply(reply: Reply, context: Any = CONTEXT, **parameters: Any) -> Any:
    async with service([reply]) as fake:
        return await built_in()["webhook"].bind({"url": fake.url, **parameters}, context, name="w").score(CASE)


async def test_the_whole_case_is_sent() -> None:
    async with service([Reply({"score": 0.5, "reason": "half"})]) as fake:
        one = await score_in_context("webhook", CASE, CONTEXT, url=f"{fake.url}/score?of=us")

    (request,) = fake.requests
    assert (request.method, request.path, request.headers["content-type"]) == (
        "POST",
        "/score?of=us",
        "application/json",
    )
    assert "palaver-signature" not in request.headers
    assert request.body["inputs"] == {"city": "France"}
    assert request.body["expected"] == "Paris"
    assert request.body["text"] == "Paris."
    assert request.body["messages"][0]["parts"] == [{"type": "text", "text": "Paris."}]
    assert request.body["flags"] == {"is_chat": True, "is_chat_source": "declared"}
    assert request.body["turns"][0]["text"] == "Paris."
    assert request.body["latency"] == 0.5
    assert (one.status, one.passed, one.score, one.reason) == ("scored", None, 0.5, "half")


async def test_the_body_is_signed_with_the_secret() -> None:
    async with service([Reply(True)]) as fake:
        one = await score_in_context("webhook", CASE, CONTEXT, url=fake.url, secret="env:PALAVER_WEBHOOK_SECRET")

    secret = ENV["PALAVER_WEBHOOK_SECRET"]
    (request,) = fake.requests
    assert request.headers["palaver-signature"] == f"sha256={hmac.digest(secret.encode(), request.raw, 'sha256').hex()}"
    assert secret.encode() not in request.raw
    assert one.passed is True


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        ("whsec-123", "Evaluator 'webhook': secret must name an environment variable: env:PALAVER_WEBHOOK_NAME."),
        (
            "env:OPENAI_API_KEY",
            "Evaluator 'webhook': secret must name an environment variable: env:PALAVER_WEBHOOK_NAME.",
        ),
        ("env:PALAVER_DB", "Evaluator 'webhook': secret must name an environment variable: env:PALAVER_WEBHOOK_NAME."),
        ("env:PALAVER_WEBHOOK_OTHER", "Evaluator 'webhook': environment variable PALAVER_WEBHOOK_OTHER is not set."),
    ],
)
def test_a_secret_must_name_a_webhook_variable_that_is_set(secret: str, message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        built_in()["webhook"].bind({"url": "https://example.org", "secret": secret}, CONTEXT)

    assert (caught.value.pointer, caught.value.message) == ("/parameters/secret", message)


async def test_the_agenta_body_format_is_sent_and_its_answer_is_parsed() -> None:
    async with service([Reply({"score": 0.9, "success": False})]) as fake:
        one = await score_in_context("webhook", CASE, CONTEXT, url=fake.url, body="agenta")

    assert fake.requests[0].body == {"inputs": {"city": "France"}, "output": "Paris.", "correct_answer": "Paris"}
    assert (one.passed, one.score) == (False, 0.9)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (True, [("w", "scored", True, 1)]),
        (0.25, [("w", "scored", None, 0.25)]),
        ("kind", [("w", "scored", None, None)]),
        (None, [("w", "skipped", None, None)]),
        ({"tone": 3}, [("w", "scored", None, None), ("w.tone", "scored", None, 3)]),
        (
            [{"name": "a", "score": 1}, {"name": "b", "passed": False}],
            [("w.a", "scored", None, 1), ("w.b", "scored", False, 0)],
        ),
        ([1, 2], [("w", "error", None, None)]),
    ],
)
async def test_the_answer_may_be_anything_that_an_evaluator_may_return(reply: Any, expected: Any) -> None:
    result = await score_reply(Reply(reply))

    assert [(one.evaluator, one.status, one.passed, one.score) for one in result] == expected


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply({"error": "no"}, 500), 'webhook_failed: The service responded with status 500: {"error":"no"}'),
        (Reply(b"", 204), "webhook_failed: The service responded with status 204."),
        (
            Reply(True, 302, {"location": "http://127.0.0.1:1/"}),
            "webhook_failed: The service responded with status 302: true",
        ),
        (
            Reply(b"<p>"),
            f"{UNREADABLE_REASON} Invalid JSON: invalid character (byte 0).",
        ),
        (
            Reply(b'"' + b"x" * 1024 * 1024 + b'"'),
            "webhook_failed: The response from the remote service exceeds the limit of 1,048,576 bytes.",
        ),
        (Reply(status=None), "webhook_failed: The service could not be reached or closed the connection early."),
    ],
)
async def test_an_invalid_response_is_an_error(reply: Reply, reason: str) -> None:
    (one,) = await score_reply(reply)

    assert (one.status, one.score, one.reason) == ("error", None, reason)


async def test_an_unreachable_service_is_an_error() -> None:
    one = await score_in_context("webhook", CASE, CONTEXT, url="http://127.0.0.1:1/")

    assert one.reason == "webhook_failed: The service could not be reached or closed the connection early."


REFUSED_URLS = [
    "http://127.0.0.1/",
    "http://10.0.0.1/",
    "http://169.254.169.254/latest/meta-data",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://example.org:8080/",
    "http://user:word@example.org/",
    "ftp://example.org/",
    "file:///etc/passwd",
    "no url",
]


@pytest.mark.parametrize("url", REFUSED_URLS)
def test_a_url_that_is_not_public_is_rejected_when_binding(url: str) -> None:
    with pytest.raises(PalaverError) as caught:
        built_in()["webhook"].bind({"url": url}, make_context())

    assert (caught.value.code, caught.value.message) == ("url_refused", "This URL is not allowed.")


async def test_a_host_name_of_this_machine_is_refused_when_requested() -> None:
    one = await score_in_context("webhook", CASE, make_context(), url="http://localhost/")

    assert (one.status, one.reason) == ("error", "url_refused: This URL is not allowed.")
