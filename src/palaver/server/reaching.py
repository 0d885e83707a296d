"""Whom evaluators reach from a server, a worker or a command: what the settings and the environment say."""

import os
from collections.abc import Mapping
from pathlib import Path

from palaver.discovery.registry import Registry
from palaver.engine.engine import Engine
from palaver.evaluation.known import Evaluators
from palaver.evaluation.outside.reaching import Online, Outside
from palaver.server.settings import Settings


def reach_of(
    evaluators: Evaluators,
    registry: Registry,
    settings: Settings,
    engine: Engine | None = None,
    *,
    env: Mapping[str, str] = os.environ,
    allow_private: bool | None = None,
) -> Online:
    """The Reach of a process. Without an engine, workflows can be named as judges and not asked."""
    outside = Outside(
        providers=settings.providers,
        default_judge=settings.eval_judge,
        prices=settings.prices,
        models=Path(settings.eval_models),
        env=env,
        allow_private=settings.allow_private_urls if allow_private is None else allow_private,
    )
    return Online(evaluators, outside, find=registry.workflow, engine=engine)
