"""Find a workflow by URL, by target (file, folder, module:name), or by name, served locally or installed."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

import click

from palaver.discovery.connections import connect
from palaver.discovery.workflow_loader import load_installed, load_one
from palaver.errors import DiscoveryError, PalaverError, TargetNotFound
from palaver.outbound import check_url, printable
from palaver.workflows.workflow import Workflow

LOCAL_SERVER_URL = "http://127.0.0.1:8642"


def is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def require_valid_url(url: str) -> None:
    """Raise UsageError for a malformed URL on the command line."""
    try:
        check_url(url)
    except PalaverError as error:
        raise click.UsageError(printable(error.message, 500)) from None


def is_target(text: str) -> bool:
    return ":" in text or text.endswith(".py") or "/" in text or Path(text).is_dir()


def find_workflow(text: str, *, url: str | None = None) -> Workflow:
    """Return the workflow. A bare name is looked up on the server at `url`, else on the local one, else installed."""
    if is_url(text):
        require_valid_url(text)
        return connect(text)
    if is_target(text):
        workflows = load_one(text)
        if len(workflows) > 1:
            names = ", ".join(workflow.description.name for workflow in workflows)
            raise TargetNotFound(f"{text} declares several workflows. Use {text}:NAME. Available: {names}.")
        return workflows[0]
    if url is not None:
        require_valid_url(url)
        return connect(f"{url.rstrip('/')}/{text}", name=text)
    local_workflow = _find_on_local_server(text)
    return local_workflow or load_installed(text)


def _find_on_local_server(name: str) -> Workflow | None:
    """Return a workflow of the server on the default port, if one runs and has it."""
    if not is_listening(LOCAL_SERVER_URL):
        return None
    try:
        remote = connect(f"{LOCAL_SERVER_URL}/{name}", name=name)
    except DiscoveryError:
        return None
    return remote if remote.reachable else None


def is_listening(url: str) -> bool:
    """Whether a server accepts connections at this address."""
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=0.3):
            return True
    except OSError:
        return False
