"""Online evaluation in a server, or a worker: what its scorer scores with. All of it is loaded with the first case."""

from typing import TYPE_CHECKING

from palaver.discovery.registry import Registry
from palaver.engine.engine import Engine, utc_now
from palaver.evaluation.online.scorer import OnlineScorer
from palaver.server.settings import Settings
from palaver.storage.database import Database

if TYPE_CHECKING:
    from palaver.evaluation.online.scoring import Scoring


def scorer_of(engine: Engine, database: Database, registry: Registry, settings: Settings, process: str) -> OnlineScorer:
    """The scorer of a process."""

    def make() -> "Scoring":
        from palaver.evaluation.known import Evaluators
        from palaver.evaluation.online.scoring import Scoring
        from palaver.server.reaching import reach_of

        evaluators = Evaluators(registry.evaluators)
        return Scoring(database, evaluators, reach_of(evaluators, registry, settings, engine))

    return OnlineScorer(database, process=process, make=make, draining=lambda: engine.draining, now=utc_now)
