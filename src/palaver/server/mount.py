"""`app(...)`: an ASGI application of given workflows, to run or to mount elsewhere."""

import os
from typing import Any

from palaver.discovery.declared import declared
from palaver.discovery.registry import Registry
from palaver.server.app import Server
from palaver.server.settings import Settings
from palaver.workflows.workflow import Workflow


def app(*workflows: Workflow, default: str | None = None, **settings: Any) -> Server:
    """An ASGI application that serves these workflows: `application = app(tutor, headline)`.

    Settings by keyword, as in palaver.toml (`max_body=…`). Mounted in another application, say under which host others
    call it: `allowed_hosts=("api.example.org",)`.
    """
    made = Settings(default=default, **settings)
    connections = declared(made.connections, os.environ)
    return Server(Registry(workflows, connections=connections, default=default), made)
