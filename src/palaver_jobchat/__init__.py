"""Job Chat: an assistant that helps people write OpenFn jobs.

An application that uses only Palaver's public names: `palaver serve palaver_jobchat:app`. `app` is created on first
access, with the settings of that moment, so that importing the package needs no extra packages.

    service             the workflow `job_chat` and its inputs
    payload             parse and validate a question
    assistant           answer a question: gather docs, call the model, apply and correct its edits
    prompt              the prompt
    redaction           hide credentials in what the model sees
    stream_collector    collect the model's response
    edits               apply the model's edits to the job
    edit_matcher        find the code that an edit replaces
    edit_report         the outcome of edits, for clients
    reply               the end of a reply
    javascript          parse JavaScript
    bm25                rank texts against a question
    settings            Job Chat's settings
    cli                 the command `palaver-jobchat`
    adaptors            adaptor names and docs
    docs                index and search the documentation
    models              the models that answer
    rules               rules for good jobs
    evaluators          score answers by the rules
    testing             a fake provider
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
    globals()["app"] = app = build_workflow()
    return app
