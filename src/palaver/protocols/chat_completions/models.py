"""GET /v1/models: the workflows as OpenAI models."""

from collections.abc import Iterable
from typing import Any

from palaver.core.descriptions import Description
from palaver.errors import NotFound
from palaver.protocols.base import HttpResponse, json_response


class ModelNotFound(NotFound):
    """The workflow exists, but is not a chat."""

    openai_code = "model_not_found"


def models_response(descriptions: Iterable[Description], created: int) -> HttpResponse:
    """List all chats by name. `created` is the time of their registration, in Unix seconds."""
    chats = sorted((description for description in descriptions if description.is_chat), key=lambda chat: chat.name)
    return json_response({"object": "list", "data": [_model(chat, created) for chat in chats]})


def model_response(description: Description, created: int) -> HttpResponse:
    """Raises ModelNotFound for a workflow that is not a chat."""
    if not description.is_chat:
        raise ModelNotFound(f"Model {description.name!r} not found: the workflow is not a chat.")
    return json_response(_model(description, created))


def _model(chat: Description, created: int) -> dict[str, Any]:
    return {"id": chat.name, "object": "model", "created": created, "owned_by": "palaver"}
