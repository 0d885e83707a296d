"""The network context of evaluators: judges by name, workflows as judges, embeddings, and keys."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, select

from palaver import Case, chat, evaluator, workflow
from palaver.core.messages import Message, Usage
from palaver.discovery.registry import Registry
from palaver.errors import Failure, InvalidValue, SettingsError
from palaver.evaluation.case import Turn
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.evaluators.expectations import ExpectationCheck, check_turn
from palaver.evaluation.plan.plan import PlannedEvaluator
from palaver.evaluation.providers.config import Provider
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.server.evaluation import create_evaluator_context
from palaver.server.settings import Settings, read_settings
from palaver.storage.database import MEMORY_URL, Database, open_database
from palaver.storage.tables import runs
from tests.evaluation.evaluator_helpers import answer
from tests.evaluation.fake_services import (
    ENV,
    KEY,
    completion,
    embeddings,
    error_reply,
    make_context,
    openai,
    score_in_context,
    service,
)
from tests.evaluation.runner.local_server import (
    plan,
    results,
    rows,
    running_server,
    store_evaluation,
    variant,
    wait_for_end,
)
from tests.jobchat.docs.fake_embeddings import save_model

GOOD_VERDICT = {"passed": True, "score": 1, "reason": "Good."}
PARIS_CASE = answer("Paris.", expected="Paris")


@chat
async def court(messages: list[Message]) -> Any:
    """Finds everything good."""
    assert [message.role for message in messages] == ["system", "user"]
    yield msgspec.json.encode(GOOD_VERDICT).decode()
    yield Usage(7, 3, cost=0.01)


@workflow
async def one_eyed(prompt: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A workflow that is not a chat."""
    return {"passed": "Paris" in prompt, "score": len(schema["required"]) / 3, "reason": ""}


@workflow
async def texts(question: str) -> str:
    """A workflow that is not a chat; its only input takes the question."""
    return f'Well: {{"passed": {"true" if question else "false"}, "score": 0.5, "reason": "r"}}'


@workflow
async def calculator(left: int, right: int) -> int:
    """It has no input for a question."""
    return left + right


@chat
async def broken(messages: list[Message]) -> Any:
    """It fails."""
    raise Failure("tired", "I am tired.")


@pytest.fixture
async def memory_database() -> AsyncIterator[Database]:
    opened = open_database(MEMORY_URL)
    yield opened
    await opened.close()


def dump_sql(db: Connection) -> str:
    """Dump the database as SQL."""
    raw: Any = db.connection.driver_connection
    return "\n".join(raw.iterdump())


JUDGE_REGISTRY = Registry([court, one_eyed, texts, calculator, broken])


# Judge names


@pytest.mark.parametrize(
    ("judge", "model"),
    [
        ("first/gpt-4o", "gpt-4o"),
        ("first/org/llama", "org/llama"),
        ("second/any", "any"),
        ("gpt-5", "gpt-5"),
        ("default", "gpt-9"),
    ],
)
async def test_a_judge_model_is_resolved_by_provider_prefix_or_by_model_pattern(judge: str, model: str) -> None:
    async with service(lambda _: completion(GOOD_VERDICT)) as fake:
        patterns = ("gpt-*", "org/*")
        providers = {"second": openai(fake.url)["openai"], "first": openai(fake.url, models=patterns)["openai"]}
        context = make_context(providers, default_judge="gpt-9")
        one = await score_in_context("llm_judge", PARIS_CASE, context, judge=judge, prompt="{{text}}")

    assert (one.passed, fake.requests[0].body["model"]) == (True, model)


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ("default", "no default judge is set. Name a judge or set eval_judge."),
        ("nobody", "judge 'nobody' not found. Use a workflow or provider/model. Providers: openai."),
        ("openai/", "judge 'openai/' not found. Use a workflow or provider/model. Providers: openai."),
        (
            "calculator",
            (
                "workflow 'calculator' cannot be a judge: it is not a chat, "
                "and has neither an input 'prompt' nor a single input."
            ),
        ),
    ],
)
@pytest.mark.parametrize("key", ["llm_judge", "goal_reached", "refusal", "tool_results_used"])
def test_an_unknown_or_unsuitable_judge_is_rejected(key: str, judge: str, message: str) -> None:
    context = make_context(openai("http://127.0.0.1:1"), registry=JUDGE_REGISTRY)
    parameters = {"judge": judge} | ({"prompt": "x"} if key == "llm_judge" else {})
    with pytest.raises(InvalidValue) as caught:
        built_in()[key].bind(parameters, context)

    assert (caught.value.pointer, caught.value.message) == ("/parameters/judge", f"Evaluator {key!r}: {message}")


def test_a_provider_whose_key_variable_is_not_set_is_rejected() -> None:
    context = make_context(openai("http://127.0.0.1:1", key="env:OTHER_KEY"))
    with pytest.raises(InvalidValue) as caught:
        built_in()["llm_judge"].bind({"judge": "openai/m", "prompt": "x"}, context)

    message = "provider 'openai' has no API key: environment variable OTHER_KEY is not set."
    assert caught.value.message == f"Evaluator 'llm_judge': {message}"


async def test_no_authorization_header_is_sent_to_a_provider_without_a_key() -> None:
    async with service([completion(GOOD_VERDICT)]) as fake:
        one = await score_in_context(
            "llm_judge", PARIS_CASE, make_context(openai(fake.url, key=None)), judge="openai/m", prompt="x"
        )

    assert (one.passed, "authorization" in fake.requests[0].headers) == (True, False)


async def test_an_expectation_is_judged_by_the_default_judge() -> None:
    turn = Turn(user=Message.user("Thanks"), messages=(Message.assistant("Bye"),), text="Bye")
    async with service([completion({"passed": False, "reason": "Curt."})]) as fake:
        result = await check_turn(
            {"judge": "It is polite."}, turn, make_context(openai(fake.url), default_judge="openai/m")
        )

    assert result == [ExpectationCheck("judge", passed=False, reason="Curt.")]
    assert "It is polite." in fake.requests[0].body["messages"][1]["content"]


async def test_a_custom_evaluator_can_call_a_judge_and_its_usage_is_recorded() -> None:
    @evaluator
    async def kind(case: Case, context: EvaluatorContext) -> bool:
        verdict = await context.judge("openai/m", f"Is it kind? {case.text}", schema={"type": "boolean"})
        return verdict is True

    async with service([completion("true")]) as fake:
        (one,) = await kind.bind({}, make_context(openai(fake.url))).score(PARIS_CASE)

    assert (one.passed, one.usage) == (True, Usage(100, 10, 40))
    assert "response_format" not in fake.requests[0].body


# Workflows as judges


async def test_runs_of_a_workflow_judge_are_stored_in_the_callers_project(memory_database: Database) -> None:
    async with running_server(memory_database, court, one_eyed, texts) as server:
        context = create_evaluator_context(
            EvaluatorRegistry(), server.registry, server.settings, server.engine
        ).for_project("shop", "key_1")
        result = [
            await score_in_context("llm_judge", PARIS_CASE, context, judge=judge, prompt="Is it {{expected}}? {{text}}")
            for judge in ("court", "one_eyed", "texts")
        ]
        await server.runtime.recorder.flush()
        columns = (runs.c.project, runs.c.key, runs.c.workflow, runs.c.protocol, runs.c.status)
        stored = await memory_database.read(lambda db: db.execute(select(*columns).order_by(runs.c.workflow)).all())

    assert [(one.passed, one.score, one.reason) for one in result] == [
        (True, 1, "Good."),
        (True, 1, ""),
        (True, 0.5, "r"),
    ]
    assert [(one.usage, one.cost) for one in result] == [(Usage(7, 3, cost=0.01), 0.01), (None, None), (None, None)]
    assert [tuple(row) for row in stored] == [
        ("shop", "key_1", name, "evaluation", "finished") for name in ("court", "one_eyed", "texts")
    ]


async def test_a_failing_workflow_judge_gives_an_error_without_a_score(memory_database: Database) -> None:
    async with running_server(memory_database, broken) as server:
        context = create_evaluator_context(EvaluatorRegistry(), server.registry, server.settings, server.engine)
        one = await score_in_context("llm_judge", PARIS_CASE, context, judge="broken", prompt="x")

    assert (one.status, one.score, one.reason) == ("error", None, "judge_failed: broken: I am tired.")


async def test_a_workflow_judge_without_an_engine_is_not_available() -> None:
    one = await score_in_context(
        "llm_judge", PARIS_CASE, make_context(registry=JUDGE_REGISTRY), judge="court", prompt="x"
    )

    assert one.reason == "not_available: the workflow 'court' is not available: this context has no engine to run it."


async def test_provider_keys_are_neither_stored_nor_logged_by_an_evaluation(
    memory_database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @chat
    async def says(messages: list[Message]) -> Any:
        yield messages[-1].text

    caplog.set_level(logging.DEBUG, logger="palaver")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    judge = PlannedEvaluator(key="llm_judge", name="judge", parameters={"judge": "openai/m", "prompt": "{{text}}"})
    async with service([completion(GOOD_VERDICT), error_reply(400, f"bad key {KEY}")]) as fake:
        settings = Settings(trace_content="full", providers=openai(fake.url))
        async with running_server(memory_database, says, settings=settings) as server:
            await memory_database.write(
                store_evaluation, "ev_1", plan(variant("says"), evaluators=[judge], concurrency=1), rows(2)
            )
            server.runtime.evaluation_worker.wake()
            finished = await wait_for_end(memory_database)
            result = await results(memory_database)
            await server.runtime.recorder.flush()
        dump = await memory_database.read(dump_sql)

    scores = [score for one in result for score in one.scores]
    assert (finished.state, len(fake.requests)) == ("partly", 2)
    assert sorted((score.status, score.reason) for score in scores) == [
        ("error", "provider_failed: openai responded with status 400: bad key ***"),
        ("scored", "Good."),
    ]
    assert "bad key ***" in dump
    assert KEY not in dump
    assert [record.name for record in caplog.records if KEY in record.getMessage()] == []


# Embeddings


async def test_cached_embeddings_are_not_requested_again() -> None:
    vectors = {"Paris.": [1.0, 0.0], "Paris": [0.6, 0.8], "Rome": [-1.0, 0.0]}
    async with service(embeddings(vectors)) as fake:
        context = make_context(openai(fake.url))
        result = [
            await score_in_context(
                "semantic_similarity", answer("Paris.", expected=expected), scoped_context, model="openai/small"
            )
            for scoped_context in (context, context.for_project("shop", None))
            for expected in ("Paris", "Rome", "Paris.", "")
        ]

    assert [(one.passed, pytest.approx(one.score)) for one in result[:4]] == [
        (False, 0.6),
        (False, 0),
        (True, 1),
        (False, 0),
    ]
    assert [request.body["input"] for request in fake.requests] == [["Paris.", "Paris"], ["Rome"]]
    assert [one.usage for one in result] == [Usage(6, 0), Usage(3, 0), *[None] * 6]


async def test_a_local_model_is_loaded_from_the_models_folder(tmp_path: Path) -> None:
    save_model(tmp_path / "small")
    context = make_context(models_dir=tmp_path)

    one = await score_in_context(
        "semantic_similarity", answer("lending books", expected="borrow book"), context, model="local:small"
    )

    assert one.score == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    "model",
    ["local:", "local:..", "local:../small", "local:/etc", "local:none", "local:small/../small", "local:a/b/c"],
)
def test_local_models_outside_the_models_folder_are_rejected(tmp_path: Path, model: str) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "small").mkdir()
    with pytest.raises(InvalidValue, match="not found in the directory set by eval_models") as caught:
        built_in()["semantic_similarity"].bind({"model": model}, make_context(models_dir=tmp_path / "models"))

    assert caught.value.pointer == "/parameters/model"


async def test_a_folder_without_a_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()

    one = await score_in_context(
        "semantic_similarity", PARIS_CASE, make_context(models_dir=tmp_path), model="local:small"
    )

    assert one.status == "error"
    assert one.reason.startswith("not_available: 'small' is not a model2vec model")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("small", "model 'small' not found. Providers: claude."),
        ("claude/small", "provider 'claude' has no embedding models."),
    ],
)
def test_a_model_without_embeddings_is_rejected(model: str, message: str) -> None:
    context = make_context({"claude": Provider(kind="anthropic", base_url="http://127.0.0.1:1")})
    with pytest.raises(InvalidValue) as caught:
        built_in()["semantic_similarity"].bind({"model": model}, context)

    assert caught.value.message == f"Evaluator 'semantic_similarity': {message}"


# Settings


def test_providers_are_read_from_the_file_and_keys_stay_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "palaver.toml").write_text(
        'eval_judge = "openai/gpt-4o-mini"\n'
        '[providers.openai]\nkind = "openai"\nbase_url = "http://10.0.0.1/v1"\nkey = "env:OPENAI_API_KEY"\n'
        'models = ["gpt-*"]\noptions = {temperature = 0}\n',
        encoding="utf-8",
    )

    settings, sources = read_settings(env={**ENV, "PALAVER_PROVIDERS": "{}"}, folder=tmp_path)

    assert (settings.eval_judge, sources["providers"]) == ("openai/gpt-4o-mini", "file")
    assert settings.providers == {
        "openai": Provider(
            kind="openai",
            base_url="http://10.0.0.1/v1",
            key="env:OPENAI_API_KEY",
            models=("gpt-*",),
            options={"temperature": 0},
        )
    }
    assert KEY not in repr(settings)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f'key = "{KEY}"', 'key must name an environment variable: key = "env:NAME".'),
        ('base_url = "ftp://x"', "base_url must be http://… or https://…, without credentials."),
        ('base_url = "https://me:word@x"', "base_url must be http://… or https://…, without credentials."),
        ('base_url = "https://x?key=word"', "base_url must be http://… or https://…, without credentials."),
    ],
)
def test_unsafe_provider_settings_are_rejected_without_repeating_the_secret(
    tmp_path: Path, line: str, message: str
) -> None:
    url = "" if line.startswith("base_url") else 'base_url = "https://x"'
    (tmp_path / "palaver.toml").write_text(f'[providers.openai]\nkind = "openai"\n{url}\n{line}\n', encoding="utf-8")

    with pytest.raises(SettingsError) as caught:
        read_settings(env={}, folder=tmp_path)

    assert caught.value.message == f"Provider 'openai': {message}"
