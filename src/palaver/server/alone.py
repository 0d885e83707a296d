"""What runs workflows for a command that serves nobody: an engine that keeps and traces as a server's does."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from palaver.discovery.registry import Registry
from palaver.engine.engine import Engine, utc_now
from palaver.engine.files import FileFetcher
from palaver.engine.heartbeat import Heartbeat, new_process_id
from palaver.engine.recorder import Recorder
from palaver.evaluation.known import Evaluators
from palaver.evaluation.running.slice_runs import SliceRuns
from palaver.server.own import VERSION
from palaver.server.reaching import reach_of
from palaver.server.redacting import Redacting
from palaver.server.settings import Settings
from palaver.server.telemetry import Telemetry
from palaver.storage.database import Database
from palaver.workflows.threads import Threads


@asynccontextmanager
async def at_work(
    registry: Registry, settings: Settings, database: Database, known: Evaluators
) -> AsyncGenerator[SliceRuns]:
    """What runs the cells of evaluations here, as long as the block takes; others on the database see that we live.

    Who gives the command may send cases anywhere.
    """
    process = new_process_id()
    redacting = Redacting(settings, registry)
    redact = redacting.run if redacting.cleans else None
    if redact is not None:
        database.clean_with(redacting)
    await redacting.begin(database, utc_now)
    recorder = Recorder(database, process=process, now=utc_now, redact=redact)
    telemetry = Telemetry(settings, database, redacting)
    engine = Engine(
        store=recorder,
        tracing=telemetry.tracing,
        fetch=FileFetcher(database, allow_private=settings.allow_private_urls),
        threads=Threads(settings.threads),
        bounds=settings.run_bounds,
        history=settings.history_bounds,
        record=settings.record,
        debug=settings.debug,
    )
    presence = Heartbeat(
        process,
        database,
        engine,
        kind="worker",
        version=VERSION,
        now=utc_now,
        beat=settings.heartbeat_seconds,
        tracing=telemetry.tracing,
    )
    await presence.begin(only_server=False)
    try:
        yield SliceRuns(
            engine,
            database,
            process=process,
            find=registry.workflow,
            evaluators=known,
            reach=reach_of(known, registry, settings, engine, allow_private=True),
            now=utc_now,
            redact=redact,
            prices=settings.prices,
        )
    finally:
        await engine.drain(0)
        await presence.end()
        await recorder.flushed()
        await telemetry.close()
