"""Hostile text is displayed by the page and never executed."""

from typing import Any

import httpx
from playwright.async_api import Page, expect

from tests.e2e.page_monitor import PageMonitor
from tests.e2e.playground import cell, messages, send_message, take_screenshot
from tests.server_process import ServerProcess

# Each would set `window.caught` or send a foreign request if it were treated as anything but text.
PAYLOADS = [
    "<script>window.caught=1</script>",
    "<img src=x onerror='window.caught=1'>",
    "<svg onload='window.caught=1'><script>window.caught=1</script></svg>",
    "<iframe srcdoc='<script>parent.caught=1</script>'></iframe>",
    "<math><mtext></mtext><mglyph><style></style><img src=x onerror=window.caught=1></mglyph></math>",
    "[click](javascript:window.caught=1) [data](data:text/html,<script>window.caught=1</script>)",
    "![pixel](http://attacker.example/pixel.png) <http://attacker.example/auto>",
    "[x]: javascript:window.caught=1\n\n[x] [a][x]",
    "{{constructor.constructor('window.caught=1')()}} ${window.caught=1}",
    "\u202egnp.exe\u202c \u2066hidden\u2069",
    "```html\n<script>window.caught=1</script>\n```",
    '"><style>*{background:url(http://attacker.example/css)}</style>',
]
ALL_PAYLOADS = "\n\n".join(PAYLOADS)
OPEN_ALL = """async (place) => {
  for (let round = 0; round < 4; round++) {
    for (const details of place.querySelectorAll('details:not([open])')) details.open = true;
    for (const button of place.querySelectorAll('[aria-expanded=false]:not([aria-haspopup])')) button.click();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}"""


def hostile_script() -> list[dict[str, Any]]:
    """An answer that has the payloads in every kind of part."""
    return [
        {"reasoning": ALL_PAYLOADS},
        {"text": ALL_PAYLOADS},
        {"tool_call": {"name": PAYLOADS[1], "arguments": {"html": ALL_PAYLOADS}, "id": "c1"}},
        {"tool_result": {"id": "c1", "output": {"html": ALL_PAYLOADS}}},
        {"tool_call": {"name": "raw", "arguments": PAYLOADS[0], "id": "c2"}},
        {"tool_result": {"id": "c2", "output": ALL_PAYLOADS, "error": True}},
        {
            "data": {
                "name": "code-edit",
                "value": {"old_code": ALL_PAYLOADS, "new_code": ALL_PAYLOADS + "!", "html": ALL_PAYLOADS},
            }
        },
        {"data": {"name": "note", "value": {PAYLOADS[1]: ALL_PAYLOADS}}},
        {
            "message": {
                "role": "assistant",
                "parts": [
                    {
                        "type": "file",
                        "media_type": "image/svg+xml",
                        "filename": PAYLOADS[1],
                        "url": "http://attacker.example/x.svg",
                    }
                ],
            }
        },
        {"fail": {"code": "boom", "message": ALL_PAYLOADS[:400]}},
    ]


async def check_page(page: Page) -> None:
    """Check that the page shown ran no script of a payload, and has no link that would."""
    assert await page.evaluate("window.caught") is None, page.url
    links = await page.evaluate("[...document.querySelectorAll('a')].map((a) => a.protocol)")
    assert links, page.url
    assert set(links) <= {"http:", "https:", "mailto:"}, page.url


async def test_hostile_text_runs_no_script_and_sends_no_foreign_request(
    page: Page, watch: PageMonitor, site: ServerProcess
) -> None:
    async with httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=60) as http:
        response = await http.post(
            "/api/threads", json={"workflow": "scripted", "title": PAYLOADS[1], "inputs": {"script": hostile_script()}}
        )
        thread = response.json()["id"]
        board = {
            "name": PAYLOADS[0],
            "mode": "chat",
            "columns": [{"id": "c1", "workflow": "scripted"}],
            "rows": [{"id": "r1", "name": PAYLOADS[2][:60]}],
        }
        response = await http.post("/api/boards", json=board)
        board_path = f"/play/{response.json()['id']}"

    await page.goto(f"/play/{thread}")
    await send_message(page, ALL_PAYLOADS)
    chat_cell = cell(page, 1)
    await expect(chat_cell.get_by_role("alert").first).to_be_in_viewport()  # The end is kept in view.
    await take_screenshot(page, "hostile")
    # Open everything that is collapsed.
    await chat_cell.evaluate(OPEN_ALL)
    await check_page(page)
    await page.reload()
    await expect(messages(chat_cell).first).to_contain_text("window.caught")
    await check_page(page)
    for path in (board_path, "/workflows", "/workflows/scripted", "/settings"):
        await page.goto(path)
        await expect(page.locator("main")).to_be_visible()
        await check_page(page)

    assert watch.foreign == []
