"""Evaluator context without network access: other evaluators and threads are available, nothing else."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import Evaluator
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.evaluation.score import ScoringError


class OfflineContext:
    """Base of the contexts with network access; used by tests as it is."""

    def __init__(
        self, evaluators: EvaluatorRegistry | Iterable[Evaluator] = (), *, executor: Executor | None = None
    ) -> None:
        self._evaluators = evaluators
        self._executor = executor

    @property
    def executor(self) -> Executor | None:
        return self._executor

    def evaluator(self, key: str) -> Evaluator:
        known = self._evaluators
        return (known if isinstance(known, EvaluatorRegistry) else EvaluatorRegistry(known)).find(key)

    def for_project(self, project: str, key: str | None) -> EvaluatorContext:  # noqa: ARG002 - nobody asks
        """Return self: there is nothing that runs on behalf of a project."""
        return self

    def check_judge(self, judge: str, pointer: str) -> None:
        """Accept any name."""

    async def judge(self, judge: str, prompt: str, *, schema: Mapping[str, Any], retries: int = 2) -> Any:  # noqa: ARG002 - nobody is asked
        raise ScoringError("not_available", f"the judge {judge!r} cannot be asked here")

    def check_post(self, url: str, secret: str | None, pointer: str) -> None:
        """Accept any URL."""

    async def post(self, url: str, body: Any, *, secret: str | None = None, seconds: float = 10) -> Any:  # noqa: ARG002 - nor told
        raise ScoringError("not_available", "nothing can be sent from here")

    def check_model(self, model: str, pointer: str) -> None:
        """Accept any name."""

    async def embed(self, texts: Sequence[str], *, model: str) -> Sequence[Sequence[float]]:  # noqa: ARG002 - nobody reads them
        raise ScoringError("not_available", f"the model {model!r} cannot be asked here; ngram is always there")
