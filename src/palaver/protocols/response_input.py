"""The items of a Responses request, checked strictly before the dialect reads them (contract: responses, 2.2).

Everything wrong is named with its path, as in `input[2].content[0]`; nothing is guessed or falls away silently. A
reference stands for an item that was stored: whoever can look it up puts the item in its place.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from palaver.errors import InvalidType, InvalidValue, ItemNotFound
from palaver.protocols.openai_errors import StringTooLong
from palaver.protocols.openai_fields import called

_ROLES = ("user", "assistant", "system", "developer")
_LONGEST_ID = 64
_Object = Mapping[str, Any]


def check_items(items: Sequence[Any], field: str = "input") -> bool:
    """Raise for the first item that cannot be taken; are there references? `field` is where they stand in the body."""
    refers = False
    for index, item in enumerate(items):
        pointer = f"/{field}/{index}"
        if not isinstance(item, dict):
            raise InvalidType(f"{field}[{index}] must be an object, not {called(item)}.", pointer=pointer)
        refers |= _check_item(cast("_Object", item), pointer) == "item_reference"
    return refers


def references(items: Sequence[_Object]) -> Mapping[int, str]:
    """The ids of the stored items that are referred to, by place."""
    return {index: item["id"] for index, item in enumerate(items) if item.get("type") == "item_reference"}


def dereferenced(items: Sequence[_Object], found: Mapping[str, _Object]) -> list[_Object]:
    """The items, with those that were found in the places of their references."""
    named = references(items)
    for index, name in named.items():
        if name not in found:
            raise ItemNotFound(name, pointer=f"/input/{index}/id")
    return [found[named[index]] if index in named else item for index, item in enumerate(items)]


def _check_item(item: _Object, pointer: str) -> str:
    """Raise for an item that cannot be taken; its kind."""
    kind = item.get("type", "message" if "role" in item else None)
    if not isinstance(kind, str):
        raise InvalidValue("An item needs a type or a role.", pointer=pointer)
    _check_id(item, "id", pointer)
    match kind:
        case "message":
            _check_message(item, pointer)
        case "function_call":
            _check_call(item, pointer)
        case "function_call_output":
            _check_text(item, "call_id", pointer)
            if item.get("output") is None:
                raise InvalidType("output must be there and not null.", pointer=f"{pointer}/output")
        case "item_reference":
            _check_text(item, "id", pointer)
        case "mcp_approval_response":
            _check_text(item, "approval_request_id", pointer)
            if not isinstance(item.get("approve"), bool):
                raise InvalidType("approve must be true or false.", pointer=f"{pointer}/approve")
        case _:
            pass  # The rest is kept as it is.
    return kind


def _check_message(item: _Object, pointer: str) -> None:
    role, content = item.get("role"), item.get("content")
    if role not in _ROLES:
        raise InvalidValue(f"role must be one of {', '.join(_ROLES)}.", pointer=f"{pointer}/role")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        wanted = f"content must be a string or a list of parts, not {called(content)}."
        raise InvalidType(wanted, pointer=f"{pointer}/content")
    for index, part in enumerate(cast("list[Any]", content)):
        if not _is_part(part):
            raise InvalidValue("This is no part of a message that we know.", pointer=f"{pointer}/content/{index}")


def _is_part(part: Any) -> bool:
    match part:
        case {"type": "refusal", "refusal": str()}:
            return True
        case {"type": "input_image"}:
            return _has(part, "image_url", "file_id")
        case {"type": "input_file"}:
            return _has(part, "file_data", "file_url", "file_id")
        case {"type": "input_audio", "input_audio": {"data": str()}}:
            return True
        case {"text": str()}:
            return True
        case _:
            return False


def _has(part: _Object, *names: str) -> bool:
    """Does it name its content in one of these ways?"""
    for name in names:
        match part.get(name):
            case str() | {"url": str()}:
                return True
            case _:
                pass
    return False


def _check_call(item: _Object, pointer: str) -> None:
    _check_text(item, "call_id", pointer)
    _check_text(item, "name", pointer)
    arguments = item.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        wanted = f"arguments must be a JSON text, not {called(arguments)}."
        raise InvalidType(wanted, pointer=f"{pointer}/arguments")


def _check_text(item: _Object, name: str, pointer: str) -> None:
    if not isinstance(item.get(name), str):
        raise InvalidType(f"{name} must be a string, not {called(item.get(name))}.", pointer=f"{pointer}/{name}")
    if name.endswith("id"):
        _check_id(item, name, pointer)


def _check_id(item: _Object, name: str, pointer: str) -> None:
    value = item.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidType(f"{name} must be a string, not {called(value)}.", pointer=f"{pointer}/{name}")
    if value is not None and len(value) > _LONGEST_ID:
        raise StringTooLong(f"{name} is longer than {_LONGEST_ID} characters.", pointer=f"{pointer}/{name}")
