"""Reach: what lies outside of a case, for evaluators that need it: other evaluators, models, the network, threads."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Protocol

from palaver.evaluation.scores import Unscored

if TYPE_CHECKING:
    from palaver.evaluation.evaluator import Evaluator
    from palaver.evaluation.known import Evaluators


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


class Offline:
    """Reaches evaluators and threads, and nothing else. The first one there is; tests use it, too."""

    def __init__(self, evaluators: "Evaluators | Iterable[Evaluator]" = (), *, threads: Executor | None = None) -> None:
        self._evaluators = evaluators
        self._threads = threads

    @property
    def threads(self) -> Executor | None:
        """Those that were given."""
        return self._threads

    def evaluator(self, key: str) -> "Evaluator":
        """A built-in one, or one of those given."""
        from palaver.evaluation.known import Evaluators

        known = self._evaluators
        return (known if isinstance(known, Evaluators) else Evaluators(known)).find(key)

    def of(self, project: str, key: str | None) -> "Reach":  # noqa: ARG002 - nobody asks
        """The same: nothing is asked in anybody's name."""
        return self

    def check_judge(self, judge: str, pointer: str) -> None:
        """Any may be named: whether there is one is known elsewhere."""

    async def judge(self, judge: str, prompt: str, *, schema: Mapping[str, Any], retries: int = 2) -> Any:  # noqa: ARG002 - nobody is asked
        """Nobody is asked."""
        raise Unscored("not_available", f"the judge {judge!r} cannot be asked here")

    def check_post(self, url: str, secret: str | None, pointer: str) -> None:
        """Any may be named."""

    async def post(self, url: str, body: Any, *, secret: str | None = None, seconds: float = 10) -> Any:  # noqa: ARG002 - nor told
        """Nothing is sent."""
        raise Unscored("not_available", "nothing can be sent from here")

    def check_model(self, model: str, pointer: str) -> None:
        """Any may be named."""

    async def embed(self, texts: Sequence[str], *, model: str) -> Sequence[Sequence[float]]:  # noqa: ARG002 - nobody reads them
        """There is no model."""
        raise Unscored("not_available", f"the model {model!r} cannot be asked here; ngram is always there")
