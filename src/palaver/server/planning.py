"""Plans of evaluations, as a server or a command makes them: of what is served, stored and known here."""

from palaver.discovery.registry import Registry
from palaver.evaluation.known import Evaluators
from palaver.evaluation.planning.requests import Planning
from palaver.evaluation.planning.stored_sets import StoredSets
from palaver.evaluation.scoring.reach import Reach
from palaver.server.settings import Settings
from palaver.server.variants import resolve
from palaver.storage.database import Database


def planning_of(
    registry: Registry, database: Database, settings: Settings, known: Evaluators, reach: Reach
) -> Planning:
    """What makes plans."""
    return Planning(
        workflow=registry.workflow,
        testsets=StoredSets(database),
        resolve=lambda project, workflow, reference: resolve(database, project, workflow, reference),
        bind=lambda key, parameters, name: known.find(key).bind(parameters, reach, name=name),
        most_cells=settings.eval_max_cells,
        most_cost=settings.eval_max_cost or None,
    )
