"""The workflow `job_chat`: its inputs with their JSON Schemas, and how it answers.

The inputs accept any value: payload.py validates them and reports all errors at once.
"""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta

from palaver import Context, Data, Message, chat
from palaver_jobchat import models, payload
from palaver_jobchat.adaptors.library import AdaptorLibrary
from palaver_jobchat.adaptors.names import EXAMPLE
from palaver_jobchat.assistant import Assistant
from palaver_jobchat.docs.search import DocsRetriever
from palaver_jobchat.models.base import Model
from palaver_jobchat.models.rehearsal import NOTICE, RehearsalModel
from palaver_jobchat.settings import Settings, read_settings


def _nullable(kind: str, description: str, **keywords: Any) -> dict[str, Any]:
    return {"type": [kind, "null"], "description": description, **keywords}


CONTEXT_SCHEMA: Final[dict[str, Any]] = _nullable(
    "object",
    "The job that the question is about. All fields are optional.",
    properties={
        "expression": _nullable("string", "The job's code.", contentMediaType="text/javascript"),
        "adaptor": _nullable("string", f"The job's adaptor, e.g. {EXAMPLE}."),
        "page_name": _nullable("string", "The job's name."),
        "input": {"description": "The input of the job's last run, as any JSON."},
        "output": {"description": "The output of the job's last run, as any JSON."},
        "log": _nullable("string", "The log of the job's last run.", contentMediaType="text/plain"),
    },
    examples=[{"expression": "get('/patients');\n", "adaptor": EXAMPLE, "page_name": "fetch-patients"}],
)
META_SCHEMA: Final[dict[str, Any]] = _nullable(
    "object", "The meta of the previous answer. Lets Job Chat reuse its search results."
)


def _flag(description: str, **keywords: Any) -> Meta:
    return Meta(extra_json_schema=_nullable("boolean", description, **keywords))


ContextInput = Annotated[Any, Meta(extra_json_schema=CONTEXT_SCHEMA)]
ReturnedMeta = Annotated[Any, Meta(extra_json_schema=META_SCHEMA)]
UseNewPrompt = Annotated[Any, _flag("Return changes to the job as suggested_code, separately from the text.")]
SuggestCode = Annotated[Any, _flag("Newer name for use_new_prompt.", examples=[True])]
DownloadAdaptorDocs = Annotated[Any, _flag("Allow downloading the adaptor's docs (default: true).")]
RefreshRag = Annotated[Any, _flag("Discard earlier search results and search again.")]
Rehearsal = Annotated[Any, _flag("Test mode: answer from a script instead of a model.")]
RehearsalFirst = Annotated[
    Any, _flag("Test mode: answer from a script instead of a model. This server has no model key.", examples=[True])
]
"""Used when the server has no key: the form starts with test mode switched on."""
ModelScript = Annotated[
    Any, Meta(extra_json_schema={"description": "The script for a scripted model. Ignored unless the server uses one."})
]

_ROLES = ("user", "assistant")


def build_workflow(settings: Settings | None = None, model: Model | None = None) -> Any:
    """Build the workflow. Settings default to those of the environment and the working folder."""
    settings = read_settings(os.environ, Path.cwd()) if settings is None else settings
    model = models.create_model(settings) if model is None else model
    library = AdaptorLibrary(settings)
    retriever = DocsRetriever(settings)
    assistant = Assistant(settings, model, library, retriever)
    rehearsal_assistant = Assistant(settings, RehearsalModel(settings), library, retriever)

    def health() -> dict[str, str]:
        return {
            "anthropic": "working" if settings.provider == "anthropic" and model.is_configured else "not configured",
            "docs_index": "working" if retriever.has_index else "not configured",
        }

    async def job_chat(
        messages: list[Message],
        ctx: Context,
        context: ContextInput = None,
        meta: ReturnedMeta = None,
        use_new_prompt: UseNewPrompt = None,
        suggest_code: SuggestCode = None,
        download_adaptor_docs: DownloadAdaptorDocs = None,
        refresh_rag: RefreshRag = None,
        rehearsal: Rehearsal = None,
        model_script: ModelScript = None,
    ) -> AsyncGenerator[object]:
        parsed = payload.parse_payload(
            {
                **_content_and_history(messages),
                "context": context,
                "meta": _returned_meta(messages) if meta is None else meta,
                "use_new_prompt": use_new_prompt,
                "suggest_code": suggest_code,
                "download_adaptor_docs": download_adaptor_docs,
                "refresh_rag": refresh_rag,
                "rehearsal": rehearsal,
            },
            settings.limits,
        )
        key = ctx.secrets.get("api_key")
        if parsed.rehearsal:
            yield Data(name="notice", value=NOTICE)
        outputs = (rehearsal_assistant if parsed.rehearsal else assistant).answer(
            parsed,
            ctx,
            key=key.reveal() if key is not None else None,
            script=model_script if settings.provider == "scripted" else None,
        )
        async with aclosing(outputs):
            async for output in outputs:
                yield output

    if not model.is_configured:
        job_chat.__annotations__["rehearsal"] = RehearsalFirst
    return chat(
        job_chat,
        description="Helps write OpenFn jobs: answers questions and suggests code changes.",
        readme=files("palaver_jobchat").joinpath("data", "README.md").read_text(encoding="utf-8"),
        system="reject",
        health=health,
    )


def _content_and_history(messages: Sequence[Message]) -> dict[str, Any]:
    """Return the user's last message as `content` and the messages before it as `history`, text only."""
    turns = [message for message in messages if message.role in _ROLES]
    last = turns.pop() if turns and turns[-1].role == "user" else None
    return {
        "content": last.text if last is not None else None,
        "history": [{"role": turn.role, "content": turn.text} for turn in turns],
    }


def _returned_meta(messages: Sequence[Message]) -> Mapping[str, Any] | None:
    """Return the `meta` of the last answer, if the client sent it back with its data parts."""
    for message in reversed(messages):
        for part in message.parts if message.role == "assistant" else ():
            match part:
                case Data(name="reply", value={"meta": dict()} as value):
                    return value["meta"]
                case _:
                    pass
    return None
