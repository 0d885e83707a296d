"""The JavaScript blocks of a Markdown text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver_jobchat.javascript import CodeBlock, javascript_blocks


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("", []),
        ("no code `here`", []),
        ("Use:\n```js\nget('/a');\n```\nor\n~~~ JavaScript title=x\nget('/b');\n\nget('/c');\n~~~",
         [CodeBlock("get('/a');", 3), CodeBlock("get('/b');\n\nget('/c');", 7)]),
        ("```json\n{}\n```\n```\nplain\n```\n```js\n\n```", []),
        ("- so:\n  ```js\n  fn(s => {\n    return s;\n  });\n  ```", [CodeBlock("fn(s => {\n  return s;\n});", 3)]),
        ("> ```js\n> get('/a');\n> ```", [CodeBlock("get('/a');", 2)]),
        ("````js\n`` `\n```\n````", [CodeBlock("`` `\n```", 2)]),
        ("```js\r\nget('/a');\r\nget('/b", [CodeBlock("get('/a');\nget('/b", 2)]),
    ],
)  # fmt: skip
def test_javascript_blocks_are_found_in_fences(text: str, blocks: list[CodeBlock]) -> None:
    assert javascript_blocks(text) == blocks


@given(st.text("`~js \n>a", max_size=60))
def test_any_text_is_parsed_and_line_numbers_are_within_it(text: str) -> None:
    assert all(1 <= block.line <= text.count("\n") + 1 for block in javascript_blocks(text))
