"""Questions: requests that are answered without running anything. Each is a function of what is asked and served."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from palaver.core import jsons
from palaver.core.descriptions import Description
from palaver.protocols import inspect as inspection
from palaver.protocols import models as listing
from palaver.protocols.base import Answer, Find, Request

_JSON = (("content-type", "application/json"),)


class Served(NamedTuple):
    """What a question may ask about."""

    find: Find
    descriptions: Callable[[], Sequence[Description]]
    routes: Callable[[str], Mapping[str, str]]
    default: Callable[[], str | None]
    version: str
    since: int
    """When they were registered, in unix seconds."""


def inspect(request: Request, served: Served) -> Answer:
    """What a workflow says about itself."""
    description = served.find(request.workflow)
    inspection.check(request)
    return inspection.answer(description, routes=served.routes(description.name), version=served.version)


def models(request: Request, served: Served) -> Answer:
    """Every chat; below a workflow, that one."""
    known = served.descriptions() if request.workflow is None else [served.find(request.workflow)]
    return listing.listing(known, served.since)


def model(request: Request, served: Served) -> Answer:
    """One chat."""
    if request.workflow is not None:
        served.find(request.workflow)
    return listing.one(served.find(request.parameters["model"]), served.since)


def agent_info(request: Request, served: Served) -> Answer:
    """What MLflow's clients ask an agent server."""
    served_as = served.default() if request.workflow is None else served.find(request.workflow).name
    document = {"name": served_as or "palaver", "use_case": "agent", "agent_api": "responses"}
    return Answer(status=200, headers=_JSON, body=jsons.encode(document))
