"""Evaluations in a server, or a worker: what its runner runs them with. All of it is loaded with the first of them."""

from typing import TYPE_CHECKING

from palaver.discovery.registry import Registry
from palaver.engine.engine import Engine, utc_now
from palaver.evaluation.running.runner import Runner
from palaver.server.redacting import Redacting
from palaver.server.settings import Settings
from palaver.storage.database import Database

if TYPE_CHECKING:
    from palaver.evaluation.running.slice_runs import SliceRuns


def runner_of(
    engine: Engine, database: Database, registry: Registry, settings: Settings, redacting: Redacting, process: str
) -> Runner:
    """The runner of a process. Its cells leave half of what sync workflows can run at once to those who wait.

    One that takes nothing from the background takes no cells either.
    """

    def make() -> "SliceRuns":
        from palaver.evaluation.known import Evaluators
        from palaver.evaluation.running.slice_runs import SliceRuns
        from palaver.server.reaching import reach_of

        evaluators = Evaluators(registry.evaluators, served=registry.names)
        return SliceRuns(
            engine,
            database,
            process=process,
            find=registry.workflow,
            evaluators=evaluators,
            reach=reach_of(evaluators, registry, settings, engine),
            now=utc_now,
            redact=redacting.run if redacting.cleans else None,
            prices=settings.prices,
        )

    return Runner(
        engine,
        database,
        process=process,
        names=registry.names,
        make=make,
        most=max(1, settings.threads // 2) if settings.background_runs else 0,
        now=utc_now,
    )
