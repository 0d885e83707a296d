"""`app(...)`: an ASGI application of given workflows, to run or to mount elsewhere."""

import os
from collections.abc import Iterable
from typing import Any

from palaver.discovery.declared import declared
from palaver.discovery.registry import Registry
from palaver.discovery.targets import DeclaredEvaluator
from palaver.server.app import Server
from palaver.server.settings import Settings
from palaver.workflows.workflow import Workflow


def app(
    *workflows: Workflow,
    default: str | None = None,
    evaluators: Iterable[DeclaredEvaluator] = (),
    **settings: Any,
) -> Server:
    """An ASGI application that serves these workflows: `application = app(tutor, headline)`.

    Settings by keyword, as in palaver.toml (`max_body=…`). Mounted in another application, say under which host others
    call it: `allowed_hosts=("api.example.org",)`. Evaluators of your own are given by name: `evaluators=[polite]`.
    """
    made = Settings(default=default, **settings)
    connections = declared(made.connections, os.environ)
    return Server(Registry(workflows, connections=connections, default=default, evaluators=evaluators), made)
