"""The chat `job_chat`: what a caller sends, read and answered. It is a workflow like any other, on every protocol."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from importlib.resources import files
from pathlib import Path
from typing import Any

from palaver import Context, Data, Message, chat
from palaver_jobchat import input_schemas, models, payload
from palaver_jobchat.adaptors.library import AdaptorLibrary
from palaver_jobchat.assistant import Assistant
from palaver_jobchat.docs.retriever import DocsRetriever
from palaver_jobchat.models.base import Model
from palaver_jobchat.models.rehearsal import NOTICE, RehearsalModel
from palaver_jobchat.settings import Settings, read_settings

_ROLES = ("user", "assistant")


def build_workflow(settings: Settings | None = None, model: Model | None = None) -> Any:
    """The workflow, with these settings or with those of the environment and the working folder."""
    settings = read_settings(os.environ, Path.cwd()) if settings is None else settings
    model = models.create_model(settings) if model is None else model
    library = AdaptorLibrary(settings)
    looking = DocsRetriever(settings)
    assistant = Assistant(settings, model, library, looking)
    rehearsing = Assistant(settings, RehearsalModel(settings), library, looking)

    asks_anthropic = settings.provider == "anthropic"

    def health() -> dict[str, str]:
        return {
            "anthropic": "working" if asks_anthropic and model.is_configured else "not configured",
            "docs_index": "working" if looking.has_index else "not configured",
        }

    async def job_chat(
        messages: list[Message],
        ctx: Context,
        context: input_schemas.JobContext = None,
        meta: input_schemas.ReturnedMeta = None,
        use_new_prompt: input_schemas.UseNewPrompt = None,
        suggest_code: input_schemas.SuggestCode = None,
        download_adaptor_docs: input_schemas.DownloadAdaptorDocs = None,
        refresh_rag: input_schemas.RefreshRag = None,
        rehearsal: input_schemas.Rehearsal = None,
        model_script: input_schemas.ModelScript = None,
    ) -> AsyncGenerator[object]:
        asked = payload.parse_payload(
            {
                **_conversation(messages),
                "context": context,
                "meta": _returned(messages) if meta is None else meta,
                "use_new_prompt": use_new_prompt,
                "suggest_code": suggest_code,
                "download_adaptor_docs": download_adaptor_docs,
                "refresh_rag": refresh_rag,
                "rehearsal": rehearsal,
            },
            settings.limits,
        )
        key = ctx.secrets.get("api_key")
        who = rehearsing if asked.rehearsal else assistant
        if asked.rehearsal:
            yield Data(name="notice", value=NOTICE)
        said = who.answer(
            asked,
            ctx,
            key=key.reveal() if key is not None else None,
            script=model_script if settings.provider == "scripted" else None,
        )
        async with aclosing(said):
            async for something in said:
                yield something

    if not model.is_configured:
        job_chat.__annotations__["rehearsal"] = input_schemas.RehearsalFirst
    return chat(
        job_chat,
        description="Helps to write OpenFn jobs: answers questions about them, and suggests changes of their code.",
        readme=files("palaver_jobchat").joinpath("data", "README.md").read_text(encoding="utf-8"),
        system="reject",
        health=health,
    )


def _conversation(messages: Sequence[Message]) -> dict[str, Any]:
    """The user's words, and the turns before them. What is no text is not for this chat."""
    turns = [message for message in messages if message.role in _ROLES]
    asked = turns.pop() if turns and turns[-1].role == "user" else None
    return {
        "content": asked.text if asked is not None else None,
        "history": [{"role": turn.role, "content": turn.text} for turn in turns],
    }


def _returned(messages: Sequence[Message]) -> Mapping[str, Any] | None:
    """The `meta` of our last answer, where a client sends back what we said with all its parts."""
    for message in reversed(messages):
        for part in message.parts if message.role == "assistant" else ():
            match part:
                case Data(name="reply", value={"meta": dict()} as value):
                    return value["meta"]
                case _:
                    pass
    return None
