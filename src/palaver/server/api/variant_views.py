"""Variants as the REST API reads and shows them."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core.api_keys import format_key_id
from palaver.core.variants import NAME_PATTERN, Change, check_parameters_size
from palaver.discovery.registry import Registry
from palaver.errors import FaultyCall, WorkflowNotFound
from palaver.server.api.conventions import Time, Words, told_time
from palaver.server.api.problems import told
from palaver.storage.variants import Variant, VariantHead, Version
from palaver.workflows.workflow import find_parameter_faults

_Name = Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]


class NewVariant(msgspec.Struct, frozen=True, kw_only=True):
    """What a new variant is called, and what it sets."""

    name: _Name
    parameters: dict[str, Any]
    description: Words = ""
    message: Words = ""
    """What the first version is about."""


class VariantPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be changed; null clears."""

    name: _Name | UnsetType = UNSET
    description: Words | UnsetType | None = UNSET
    archived: bool | UnsetType | None = UNSET


class NewVersion(msgspec.Struct, frozen=True, kw_only=True):
    """What a variant is to set from now on."""

    base: int
    """The version that it was made from: the newest one."""
    parameters: dict[str, Any]
    message: Words = ""


class VariantRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the list."""

    id: str
    workflow: str
    name: str
    description: str
    head: int
    archived: bool
    created_at: Time
    updated_at: Time


class VariantView(VariantRow, frozen=True, kw_only=True):
    """All of one variant, as it is now."""

    parameters: Mapping[str, Any]
    """What its newest version sets."""
    fits: bool
    """Can the workflow, as it is now, take them?"""
    faults: list[dict[str, Any]]


class VersionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a variant's history."""

    variant: str
    version: int
    message: str
    key: str | None
    created_at: Time


class VersionView(VersionRow, frozen=True, kw_only=True):
    """All of one version."""

    parameters: Mapping[str, Any]
    unchanged: bool | UnsetType = UNSET
    """True: nothing was made, the newest version sets the same."""


class Difference(msgspec.Struct, frozen=True):
    """Where two versions differ."""

    changes: list[Change]


def row(variant: Variant) -> VariantRow:
    """A variant as a row."""
    return VariantRow(**_common(variant))


def _common(variant: Variant) -> dict[str, Any]:
    times = {"created_at": told_time(variant.created_at), "updated_at": told_time(variant.updated_at)}
    return msgspec.structs.asdict(variant) | times


def version_row(version: Version) -> VersionRow:
    """A version as a row."""
    return VersionRow(**_told_version(version))


def version_view(version: Version, *, is_new: bool = True) -> VersionView:
    """A version as a whole; `is_new` is False where it was there already."""
    unchanged = UNSET if is_new else True
    return VersionView(**_told_version(version), parameters=version.parameters, unchanged=unchanged)


def _told_version(version: Version) -> dict[str, Any]:
    return {
        "variant": version.variant,
        "version": version.number,
        "message": version.message,
        "key": format_key_id(version.key) if version.key else None,
        "created_at": told_time(version.created_at),
    }


class Views:
    """How variants look beside the workflows that are served now."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def view(self, current: VariantHead) -> VariantView:
        """A variant as a whole."""
        variant, head = current
        faults = self.faults(variant.workflow, head.parameters)
        return VariantView(**_common(variant), parameters=head.parameters, fits=not faults, faults=faults)

    def faults(self, workflow: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What the workflow, as it is now, cannot take."""
        try:
            found = find_parameter_faults(self._registry.workflow(workflow), parameters)
        except WorkflowNotFound as error:
            return [told(error)]
        return [told(fault) for fault in found[: FaultyCall.MAX_FAULTS]]

    def check(self, workflow: str, parameters: Mapping[str, Any]) -> None:
        """Raise for parameters that cannot be committed, with all that is wrong with them."""
        check_parameters_size(parameters)
        faults = find_parameter_faults(self._registry.workflow(workflow), parameters)
        if faults:
            raise FaultyCall(faults)
