"""Reach: what lies outside of a case, for evaluators that need it: other evaluators, models, the network, threads."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from palaver.evaluation.scoring.evaluator import Evaluator


class Reach(Protocol):
    """A parameter of this type is given it. Whatever cannot be reached raises Unscored."""

    @property
    def threads(self) -> Executor | None:
        """Where sync evaluators run; None is the loop's own."""
        ...

    def evaluator(self, key: str) -> "Evaluator":
        """Another evaluator; InvalidValue lists the known ones."""
        ...

    def of(self, project: str, key: str | None) -> "Reach":
        """The same in the name of a project, and of a key of it."""
        ...

    def check_judge(self, judge: str, pointer: str) -> None:
        """InvalidValue, with that pointer, for a judge that could never be asked."""
        ...

    async def judge(self, judge: str, prompt: str, *, schema: Mapping[str, Any], retries: int = 2) -> Any:
        """What a workflow or model answers, as JSON that fits the schema; asked again so often if it does not."""
        ...

    def check_post(self, url: str, secret: str | None, pointer: str) -> None:
        """UrlRefused for a URL that we never go to, InvalidValue for a secret that is not named as one."""
        ...

    async def post(self, url: str, body: Any, *, secret: str | None = None, seconds: float = 10) -> Any:
        """What a service answers to a POST within so many seconds, as JSON."""
        ...

    def check_model(self, model: str, pointer: str) -> None:
        """InvalidValue, with that pointer, for a model that could never be asked for vectors."""
        ...

    async def embed(self, texts: Sequence[str], *, model: str) -> Sequence[Sequence[float]]:
        """The vectors of these texts."""
        ...
