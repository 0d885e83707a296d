"""JSON Schemas of the chat's inputs, for the page and for clients.

The types accept any value: payload.py validates them and reports all errors at once.
"""

from typing import Annotated, Any, Final

from msgspec import Meta

from palaver_jobchat.adaptors.names import EXAMPLE


def _nullable(kind: str, description: str, **more: Any) -> dict[str, Any]:
    return {"type": [kind, "null"], "description": description, **more}


CONTEXT_SCHEMA: Final[dict[str, Any]] = _nullable(
    "object",
    "The job that the question is about. All of it may be left out.",
    properties={
        "expression": _nullable("string", "The job's code.", contentMediaType="text/javascript"),
        "adaptor": _nullable("string", f"Its adaptor, such as {EXAMPLE}."),
        "page_name": _nullable("string", "What the job is called."),
        "input": {"description": "The input of its last run: any JSON."},
        "output": {"description": "The output of its last run: any JSON."},
        "log": _nullable("string", "The log of its last run.", contentMediaType="text/plain"),
    },
    examples=[{"expression": "get('/patients');\n", "adaptor": EXAMPLE, "page_name": "fetch-patients"}],
)
META_SCHEMA: Final[dict[str, Any]] = _nullable(
    "object", "What the answer before returned as meta: what was found then need not be searched for again."
)


def _flag(description: str, **more: Any) -> Meta:
    return Meta(extra_json_schema=_nullable("boolean", description, **more))


JobContext = Annotated[Any, Meta(extra_json_schema=CONTEXT_SCHEMA)]
ReturnedMeta = Annotated[Any, Meta(extra_json_schema=META_SCHEMA)]
UseNewPrompt = Annotated[Any, _flag("Whether changes of the job come apart from the text, as suggested_code.")]
SuggestCode = Annotated[Any, _flag("The same under its newer name.", examples=[True])]
DownloadAdaptorDocs = Annotated[Any, _flag("Whether the adaptor's description may be fetched. Yes, unless false.")]
RefreshRag = Annotated[Any, _flag("Whether to forget what was found earlier, and search anew.")]
Rehearsal = Annotated[Any, _flag("Whether to rehearse: a script answers, and no model is asked.")]
RehearsalFirst = Annotated[
    Any, _flag("Whether to rehearse: a script answers, and no model is asked. This server has no key.", examples=[True])
]
"""Used when the server has no key: the form starts with the rehearsal switched on."""
ModelScript = Annotated[
    Any, Meta(extra_json_schema={"description": "What a scripted model plays; only where the server has one."})
]
