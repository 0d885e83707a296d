"""The texts in code: strings, templates, and what comments say."""

from palaver_jobchat.javascript import Node

HOLE = "\ufffc"
"""Stands in a template's text where a value comes in."""


def text_of(node: Node) -> str | None:
    """What a string or template says; nothing of other nodes."""
    match node.kind:
        case "string":
            return node.text[1:-1]
        case "template_string":
            return "".join(HOLE if child.kind == "template_substitution" else child.text for child in node.children)
        case _:
            return None
