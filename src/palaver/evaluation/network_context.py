"""The evaluator context of a server, a worker or a command, with access to judges, models and webhooks.

A judge's name is resolved in this order: `default` (from the settings), `provider/model`, a workflow, the first
provider with a model of that name. No URL is derived from a name, and a key is sent only to its provider.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET

from palaver.core.messages import Message
from palaver.core.runs import DEFAULT_PROJECT, Call, Origin
from palaver.engine.engine import Engine
from palaver.errors import InvalidValue, WorkflowNotFound
from palaver.evaluation import embeddings
from palaver.evaluation.context import EvaluatorContext, offload
from palaver.evaluation.embeddings import LOCAL_PREFIX, EmbeddingCache
from palaver.evaluation.evaluator import Evaluator
from palaver.evaluation.evaluators.expectations import DEFAULT_JUDGE
from palaver.evaluation.evaluators.webhook import WebhookClient
from palaver.evaluation.judge_verdict import DEFAULT_RETRIES, JudgeAnswer, JudgeModel, ask_verdict
from palaver.evaluation.providers import config
from palaver.evaluation.providers.config import Provider
from palaver.evaluation.providers.model import ProviderModel
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.evaluation.runner.call import Prices, WorkflowCaller
from palaver.evaluation.score import ScoringError
from palaver.outbound import printable
from palaver.traces.prices import Price, find_price
from palaver.workflows.workflow import Workflow


class OfflineContext:
    """The base of NetworkContext. Judges, webhooks and embeddings raise ScoringError."""

    def __init__(
        self, evaluators: EvaluatorRegistry | Iterable[Evaluator] = (), *, executor: Executor | None = None
    ) -> None:
        self._evaluators = evaluators
        self._executor = executor

    @property
    def executor(self) -> Executor | None:
        return self._executor

    def evaluator(self, key: str) -> Evaluator:
        evaluators = self._evaluators
        return (evaluators if isinstance(evaluators, EvaluatorRegistry) else EvaluatorRegistry(evaluators)).find(key)

    def for_project(self, project: str, key: str | None) -> EvaluatorContext:  # noqa: ARG002 - an interface
        """Return self: nothing runs on behalf of a project."""
        return self

    def check_judge(self, judge: str, pointer: str) -> None:
        """Accept any name."""

    async def judge(self, judge: str, prompt: str, *, schema: Mapping[str, Any], retries: int = 2) -> Any:  # noqa: ARG002 - an interface
        raise ScoringError("not_available", f"the judge {judge!r} is not available in an offline context")

    def check_post(self, url: str, secret: str | None, pointer: str) -> None:
        """Accept any URL."""

    async def post(self, url: str, body: Any, *, secret: str | None = None, seconds: float = 10) -> Any:  # noqa: ARG002 - an interface
        raise ScoringError("not_available", "webhooks are not available in an offline context")

    def check_model(self, model: str, pointer: str) -> None:
        """Accept any name."""

    async def embed(self, texts: Sequence[str], *, model: str) -> Sequence[Sequence[float]]:  # noqa: ARG002 - an interface
        raise ScoringError("not_available", f"model {model!r} is not available. Use 'ngram', which needs no provider.")


JUDGE_TIMEOUT_S, JUDGE_RETRIES = 120.0, 2
_PROMPT_INPUT, _SCHEMA_INPUT = "prompt", "schema"


class WorkflowJudge:
    def __init__(
        self, workflow: Workflow, engine: Engine, project: str, key: str | None, prices: Prices | None = None
    ) -> None:
        self._workflow = workflow
        self._caller = WorkflowCaller(engine, timeout=JUDGE_TIMEOUT_S, retries=JUDGE_RETRIES, prices=prices)
        self._origin = Origin(project=project, key=key, protocol="evaluation", background=True)

    async def answer(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> JudgeAnswer:
        """Ask the workflow: a chat gets the messages, others get them as one text."""
        description = self._workflow.description
        if description.is_chat:
            call = Call(workflow=description.name, messages=tuple(messages))
        else:
            call = Call(workflow=description.name, inputs=_judge_inputs(self._workflow, messages, schema))
        answer = (await self._caller.call(self._workflow, call, self._origin)).answer
        if answer.error is not None:
            raise ScoringError("judge_failed", f"{description.name}: {printable(answer.error['message'])}")
        text = next((message.text for message in reversed(answer.messages) if message.role == "assistant"), "")
        usage = answer.usage
        value = UNSET if description.is_chat else answer.value
        return JudgeAnswer(text=text, value=value, usage=usage, cost=None if usage is None else usage.cost)


def check_workflow_judge(workflow: Workflow, pointer: str) -> None:
    """Raise InvalidValue for a workflow that is not a chat and has no input for the prompt."""
    if not workflow.description.is_chat and _prompt_input(workflow) is None:
        name = workflow.description.name
        message = (
            f"workflow {name!r} cannot be a judge: it is not a chat, "
            f"and has neither an input {_PROMPT_INPUT!r} nor a single input."
        )
        raise InvalidValue(message, pointer=pointer)


def _judge_inputs(workflow: Workflow, messages: Sequence[Message], schema: Mapping[str, Any]) -> dict[str, Any]:
    input_name = _prompt_input(workflow)
    if input_name is None:
        raise ScoringError("judge_failed", f"workflow {workflow.description.name!r} has no input {_PROMPT_INPUT!r}")
    prompt = "\n\n".join(message.text for message in messages)
    return {input_name: prompt} | (
        {_SCHEMA_INPUT: schema} if _SCHEMA_INPUT in _input_names(workflow) and input_name != _SCHEMA_INPUT else {}
    )


def _prompt_input(workflow: Workflow) -> str | None:
    """Return the name of the input for the prompt: `prompt`, or the only input."""
    names = _input_names(workflow)
    return _PROMPT_INPUT if _PROMPT_INPUT in names else names[0] if len(names) == 1 else None


def _input_names(workflow: Workflow) -> list[str]:
    properties = workflow.description.schemas.inputs.get("properties")
    return list(cast("Mapping[str, Any]", properties)) if isinstance(properties, Mapping) else []


NGRAM_MODEL: Final = "ngram"


class NetworkConfig(msgspec.Struct, frozen=True, kw_only=True):
    providers: Mapping[str, Provider] = {}
    default_judge: str = ""
    prices: Mapping[str, Price] = {}
    models_dir: Path = Path("models")
    env: Mapping[str, str] = {}
    """The environment variables, among them keys and secrets."""
    allow_private: bool = False
    """Whether webhooks may be on private addresses."""


class NetworkContext(OfflineContext):
    """A context that can ask configured providers and the workflows served here."""

    def __init__(
        self,
        evaluators: "EvaluatorRegistry | Iterable[Evaluator]",
        network: NetworkConfig,
        *,
        find_workflow: Callable[[str], Workflow],
        engine: "Engine | None" = None,
        executor: Executor | None = None,
    ) -> None:
        super().__init__(evaluators, executor=executor)
        self._network = network
        self._find_workflow = find_workflow
        self._engine = engine
        """None if workflows can be named here, but run in another process."""
        self._webhooks = WebhookClient(network.env, allow_private=network.allow_private)
        self._embeddings = EmbeddingCache()
        self._project = DEFAULT_PROJECT
        self._key: str | None = None

    def for_project(self, project: str, key: str | None) -> "NetworkContext":
        """Return the same context, acting for a project, to which runs of workflow judges belong."""
        context = copy.copy(self)
        context._project, context._key = project, key
        return context

    def check_judge(self, judge: str, pointer: str) -> None:
        """Raise InvalidValue for an unknown judge, or one whose provider's key is not set."""
        resolved = self._resolve_judge(judge, pointer)
        if isinstance(resolved, tuple):
            self._provider_key(resolved[0], pointer)
        else:
            check_workflow_judge(resolved, pointer)

    async def judge(self, judge: str, prompt: str, *, schema: Mapping[str, Any], retries: int = DEFAULT_RETRIES) -> Any:
        try:
            model = self._judge_model(judge)
        except InvalidValue as error:
            raise ScoringError("not_available", error.message) from None
        return await ask_verdict(model, prompt, schema, retries=retries)

    def _judge_model(self, judge: str) -> JudgeModel:
        resolved = self._resolve_judge(judge, "")
        if isinstance(resolved, tuple):
            return self._provider_model(*resolved)
        if self._engine is None:
            raise InvalidValue(f"the workflow {judge!r} is not available: this context has no engine to run it.")
        return WorkflowJudge(resolved, self._engine, self._project, self._key, self._network.prices)

    # Webhooks

    def check_post(self, url: str, secret: str | None, pointer: str) -> None:
        self._webhooks.check(url, secret, pointer)

    async def post(self, url: str, body: Any, *, secret: str | None = None, seconds: float = 10) -> Any:
        try:
            return await self._webhooks.post(url, body, secret=secret, seconds=seconds)
        except InvalidValue as error:
            raise ScoringError("not_available", error.message) from None

    # Embeddings

    def check_model(self, model: str, pointer: str) -> None:
        if model == NGRAM_MODEL:
            return
        if model.startswith(LOCAL_PREFIX):
            embeddings.check_local_model(model, self._network.models_dir, pointer)
            return
        provider_model = self._find_provider(model)
        if provider_model is None:
            raise InvalidValue(f"model {model[:80]!r} not found.{self._providers_hint()}", pointer=pointer)
        if self._network.providers[provider_model[0]].kind == "anthropic":
            raise InvalidValue(f"provider {provider_model[0]!r} has no embedding models.", pointer=pointer)
        self._provider_key(provider_model[0], pointer)

    async def embed(self, texts: Sequence[str], *, model: str) -> Sequence[Sequence[float]]:
        if model.startswith(LOCAL_PREFIX):
            models_dir = self._network.models_dir
            return await self._embeddings.get_or_embed(
                texts, model, lambda missing: offload(self, embeddings.embed_locally, model, models_dir, missing)
            )
        try:
            self.check_model(model, "")
            provider_model = self._find_provider(model)
        except InvalidValue as error:
            raise ScoringError("not_available", error.message) from None
        if provider_model is None:
            raise ScoringError("not_available", f"the model {model!r} is not an embedding model")
        return await self._embeddings.get_or_embed(
            texts, "/".join(provider_model), self._provider_model(*provider_model).vectors
        )

    # Name resolution

    def _resolve_judge(self, judge: str, pointer: str) -> tuple[str, str] | Workflow:
        name = self._network.default_judge if judge == DEFAULT_JUDGE else judge
        if not name:
            raise InvalidValue("no default judge is set. Name a judge or set eval_judge.", pointer=pointer)
        provider, slash, _ = name.partition("/")
        if not (slash and provider in self._network.providers):
            try:
                return self._find_workflow(name)
            except WorkflowNotFound:
                pass
        provider_model = self._find_provider(name)
        if provider_model is None:
            hint = self._providers_hint()
            raise InvalidValue(
                f"judge {name[:80]!r} not found. Use a workflow or provider/model.{hint}", pointer=pointer
            )
        return provider_model

    def _find_provider(self, name: str) -> tuple[str, str] | None:
        providers = self._network.providers
        provider, slash, model = name.partition("/")
        if slash and provider in providers:
            return (provider, model) if model and config.has_model(providers[provider], model) else None
        return next(((key, name) for key in providers if config.names_model(providers[key], name)), None)

    def _provider_model(self, name: str, model: str) -> ProviderModel:
        prices = self._network.prices
        price = find_price(f"{name}/{model}", prices) or find_price(model, prices)
        return ProviderModel(name, self._network.providers[name], model, self._provider_key(name, ""), price)

    def _provider_key(self, name: str, pointer: str) -> str | None:
        try:
            return config.resolve_key(self._network.providers[name], self._network.env)
        except KeyError as error:
            message = f"provider {name!r} has no API key: environment variable {error.args[0]} is not set."
            raise InvalidValue(message, pointer=pointer) from None

    def _providers_hint(self) -> str:
        names = ", ".join(self._network.providers)
        return f" Providers: {names}." if names else " No providers are configured."
