"""Job Chat: an assistant that helps people write OpenFn jobs.

One chat built on nothing but Palaver's public names: `palaver serve palaver_jobchat:app`. `app` is made when it is
first asked for, with the settings that hold then; to import the parts needs none of what it needs.
"""

from typing import TYPE_CHECKING, Any

from palaver import PalaverError

if TYPE_CHECKING:
    app: Any

__all__ = ["app"]


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'palaver_jobchat' has no attribute {name!r}")
    from palaver_jobchat.models import MISSING_PACKAGES

    try:
        from palaver_jobchat.service import build_workflow
    except ModuleNotFoundError as error:
        raise PalaverError(MISSING_PACKAGES) from error
    globals()["app"] = made = build_workflow()
    return made
