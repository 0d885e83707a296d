"""Resolve the variant of a call to its parameters."""

import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from palaver.core.ids import sortable_id
from palaver.core.variants import DEFAULT_VARIANT, parse_reference
from palaver.errors import (
    InvalidParameter,
    NameTaken,
    StaleBase,
)
from palaver.frameworks.remote import RemoteWorkflow
from palaver.storage import variants
from palaver.storage.database import Database
from palaver.storage.variants import ResolvedVariant
from palaver.workflows.workflow import Workflow, find_parameter_faults


async def resolve_variant(database: Database, project: str, workflow: Workflow, reference: str) -> ResolvedVariant:
    """Resolve `short` or `short:3`. Raises InvalidParameter if the workflow rejects its parameters."""
    name = workflow.description.name
    if parse_reference(reference).name == DEFAULT_VARIANT:
        await store_default_variant(database, project, workflow)
    resolved = await database.read(variants.resolve_reference, project, name, reference)
    faults = find_parameter_faults(workflow, resolved.parameters)
    if faults:
        fault_list = [{"code": fault.code, "message": fault.message, "path": fault.pointer} for fault in faults[:20]]
        raise InvalidParameter(
            f"Variant {resolved.reference!r} is no longer valid for workflow {name!r}: {faults[0].message}",
            details={"faults": fault_list},
        )
    return resolved


def merge_parameters(resolved: ResolvedVariant, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variant's parameters, overridden by the call's, key by key."""
    return {**resolved.parameters, **parameters}


async def store_default_variant(database: Database, project: str, workflow: Workflow) -> None:
    """Store the workflow's current defaults as a new version of the variant `default`, if they changed."""
    if isinstance(workflow, RemoteWorkflow) and not workflow.reachable:
        return  # Keep its last known defaults.
    name, parameters = workflow.description.name, workflow.description.parameters
    if await database.read(variants.is_default_current, project, name, parameters):
        return
    now = datetime.now(UTC)
    variant_id = f"var_{sortable_id(time.time_ns() // 1_000_000, secrets.randbits(80))}"
    with suppress(NameTaken, StaleBase):  # Another process stored it.
        await database.write(variants.sync_default, project, name, parameters, id=variant_id, at=now)
