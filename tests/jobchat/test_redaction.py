"""Credentials in a job's input, output and log are hidden from the model."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.testing import client
from palaver_jobchat.payload import JobContext
from palaver_jobchat.redaction import redact_context
from tests.jobchat.scenarios import ChatFactory


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A configuration, at any depth.
        (
            '{"configuration": {"password": "s3cret", "deep": {"a": "s3cret"}}, "data": {"configuration": "s3cret"}}',
            '{"configuration":{"password":"[hidden]","deep":"[hidden]"},"data":{"configuration":"[hidden]"}}',
        ),
        ('\ufeff{"configuration":["s3cret"]}', '{"configuration":"[hidden]"}'),
        ('{"configuration":{"a":1},"configuration":{"b":2}}', '{"configuration":{"b":"[hidden]"}}'),
        ('[{"configuration": 1}]', '[{"configuration":"[hidden]"}]'),
        # Names of credentials.
        (
            '{"db": {"user": "Ada", "dbPassword": "s3cret", "client_secret": 5}, "rows": [{"apiKey": "s3cret"}]}',
            '{"db":{"user":"Ada","dbPassword":"[hidden]","client_secret":"[hidden]"},"rows":[{"apiKey":"[hidden]"}]}',
        ),
        (
            '{"response":{"headers":{"Set-Cookie":"sid=s3cret","x-api-key":"s3cret","accept":"a"}}}',
            '{"response":{"headers":{"Set-Cookie":"[hidden]","x-api-key":"[hidden]","accept":"a"}}}',
        ),
        ('{"body":"{\\"password\\":\\"s3cret\\"}"}', '{"body":"{\\"password\\":\\"[hidden]\\"}"}'),
        # The same in other text.
        ("{ headers: { Authorization: 'Bearer s3cret' } }", "{ headers: { Authorization: '[hidden]' } }"),
        ("Authorization: Basic s3cret=\nAccept: a", "Authorization: [hidden]\nAccept: a"),
        ("configuration: {\n  user: 's3cret',\n  x: 1\n}\ndone", "configuration: [hidden]\ndone"),
        ("password=s3cret&user=Ada", "password=[hidden]&user=Ada"),
        (
            "GET https://ada:s3cret@host/x?access_token=s3cret&y=1",
            "GET https://[hidden]@host/x?access_token=[hidden]&y=1",
        ),
        ("curl -H 'x: Bearer s3cret-token-1'", "curl -H 'x: [hidden]'"),
        ("sk-ant-s3cret-of-somebody, eyJhbGciOiJI.eyJzdWIiOiIx.s3cret", "[hidden], [hidden]"),
        ("-----BEGIN RSA PRIVATE KEY-----\ns3cret\n-----END", "[hidden]-----END"),
    ],
)
def test_credentials_are_hidden(text: str, expected: str) -> None:
    context = JobContext(input=text, output=text, log=text)

    assert redact_context(context) == JobContext(input=expected, output=expected, log=expected)
    assert "s3cret" not in expected


@pytest.mark.parametrize(
    "text",
    [
        '{"configuration": null}',
        '{ "data": 1, "nextPageToken": "abc", "tokens": 5, "password": true }',
        "not json",
        "SyntaxError: Unexpected token ')'\nInvalid token: unexpected",
        "  post('/x', { password: $.configuration.password, token: state.token, secret: null })",
        "Basic information about https://host:8080/path and user@example.org",
    ],
)
def test_text_without_credentials_is_unchanged(text: str) -> None:
    context = JobContext(input=text, output=text, log=text)

    assert redact_context(context) == context


def test_hidden_values_are_hidden_everywhere_but_ordinary_ones_are_kept() -> None:
    configuration = {
        "password": 'pass"word',
        "apiVersion": 41.0,
        "environment": "production",
        "baseUrl": "https://host.example",
        "username": "ada-1815",
    }
    context = JobContext(
        expression="get('pass\"word');",
        input=msgspec.json.encode({"configuration": configuration, "data": {"pin": "12"}}).decode(),
        output=msgspec.json.encode({"data": 'login with pass"word'}).decode(),
        log='ada-1815 at https://host.example (production): pass"word rejected',
    )

    redacted = redact_context(context)

    assert redacted.expression == context.expression
    assert (
        redacted.input
        == msgspec.json.encode(
            {"configuration": dict.fromkeys(configuration, "[hidden]"), "data": {"pin": "12"}}
        ).decode()
    )
    assert redacted.output == '{"data":"login with [hidden]"}'
    assert redacted.log == "ada-1815 at https://host.example (production): [hidden] rejected"


async def test_no_credential_reaches_the_model(create_chat: ChatFactory) -> None:
    workflow, fake = create_chat([{"text": "Yes."}])
    context = {
        "input": {"configuration": {"accessCode": "s3cret-1"}, "data": {"auth": {"password": "s3cret-2"}}},
        "output": "{ token: 's3cret-3' }",
        "log": "Sent s3cret-1 and s3cret-2; authorization: Bearer s3cret-4",
    }

    async with client(workflow) as http:
        (await http.post("/services/job_chat", json={"content": "zzz", "context": context})).raise_for_status()

    sent = msgspec.json.encode(fake.requests[0].body).decode()
    assert "s3cret" not in sent
    assert "Sent [hidden] and [hidden]; authorization: [hidden]" in sent


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["configuration", "password", "a", "user"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON, st.text(max_size=60))
def test_any_input_can_be_redacted_and_stays_json(value: object, log: str) -> None:
    redacted = redact_context(JobContext(input=msgspec.json.encode(value).decode(), log=log))

    assert redacted.input is not None
    msgspec.json.decode(redacted.input)
    assert redact_context(redacted) == redacted
