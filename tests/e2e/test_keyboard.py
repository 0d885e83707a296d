"""Keyboard and accessibility: palette, shortcuts, input methods, right-to-left scripts, accessible names."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.e2e.playground import (
    cell,
    cells,
    messages,
    send_message,
    take_screenshot,
    take_screenshots,
    wait_for_answer,
    wait_until_idle,
)

PRESS_ENTER = """(field, event) => field.dispatchEvent(
  new KeyboardEvent('keydown', {key: 'Enter', code: 'Enter', bubbles: true, cancelable: true, ...event})
)"""
MESSAGE_FIELD = "Message"

# Accessibility checks: controls without a name, images without alt text, landmarks, duplicate ids.
FIND_UNNAMED_CONTROLS = r"""() => {
  const shown = (element) =>
    element.checkVisibility({visibilityProperty: true}) && !element.closest('[aria-hidden=true]');
  const words = (ids) => ids.split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? '').join(' ');
  const text = (element) => [...element.childNodes].map((node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.nodeType !== Node.ELEMENT_NODE || node.getAttribute('aria-hidden') === 'true') return '';
    return node.getAttribute('aria-label') ?? node.getAttribute('alt') ?? text(node);
  }).join(' ');
  const name = (element) =>
    element.getAttribute('aria-label') || words(element.getAttribute('aria-labelledby') ?? '').trim()
    || [...(element.labels ?? [])].map(text).join(' ').trim() || text(element).trim() || element.title;
  const controls = 'button, a[href], input:not([type=hidden]), select, textarea, [role=button], [role=radio],'
    + ' [role=switch], [role=tab], [role=menuitem], [role=dialog], [role=progressbar], nav';
  const found = [...document.querySelectorAll(controls)].filter((element) => shown(element) && !name(element));
  const plain = [...document.querySelectorAll('img:not([alt])')];
  const nested = [...document.querySelectorAll('button button, a button, button a, a a')];
  const ahead = [...document.querySelectorAll('[tabindex]')].filter((element) => element.tabIndex > 0);
  const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
  const twice = ids.filter((id, place) => id && ids.indexOf(id) !== place);
  const mains = [...document.querySelectorAll('main, [role=main]')].filter((element) => element.checkVisibility());
  return [
    ...found.map((element) => `no name: ${element.outerHTML.slice(0, 160)}`),
    ...plain.map((element) => `no alt: ${element.outerHTML.slice(0, 160)}`),
    ...nested.map((element) => `nested: ${element.outerHTML.slice(0, 160)}`),
    ...ahead.map((element) => `tabindex: ${element.outerHTML.slice(0, 160)}`),
    ...twice.map((id) => `twice: ${id}`),
    ...(mains.length === 1 ? [] : [`${mains.length} main landmarks`]),
    ...(document.documentElement.lang ? [] : ['no language']),
    ...(document.title ? [] : ['no title']),
  ];
}"""


async def blur(page: Page) -> None:
    """Remove the focus, as a click on empty space does."""
    await page.evaluate("document.activeElement?.blur()")


async def search_palette(page: Page, text: str) -> None:
    """Open the palette and type."""
    await page.keyboard.press("Control+k")
    await page.get_by_role("dialog", name="Search").get_by_role("combobox").fill(text)


async def test_the_palette_opens_workflows_and_threads_and_runs_commands(page: Page) -> None:
    await page.goto("/play?workflow=scripted")
    await send_message(page, "A thread about zeppelins")
    await wait_for_answer(cell(page, 1), "A thread about zeppelins")

    await search_palette(page, "headl")
    await expect(page.get_by_role("option", name=re.compile("^headline"))).to_be_visible()
    await take_screenshots(page, "palette")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/workflows/headline$"))

    await search_palette(page, "zeppelin")
    await expect(page.get_by_role("option", name=re.compile("zeppelins")).first).to_be_visible()
    await page.get_by_role("option", name=re.compile("zeppelins")).first.click()
    await expect(messages(cell(page, 1)).last).to_contain_text("A thread about zeppelins")

    await search_palette(page, "add a thr")
    await expect(page.get_by_role("option", name=re.compile("^Add thread"))).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(cells(page)).to_have_count(2)

    await search_palette(page, "settings")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_slash_focuses_the_message_and_question_mark_shows_the_shortcuts(page: Page) -> None:
    await page.goto("/play?workflow=scripted")
    field = page.get_by_role("textbox", name=MESSAGE_FIELD, exact=True)
    await expect(field).to_be_focused()
    await blur(page)
    await page.keyboard.press("/")
    await expect(field).to_be_focused()
    await expect(field).to_have_value("")
    await page.keyboard.press("?")
    await expect(field).to_have_value("?")  # In the field it is typed.
    await field.fill("")

    await blur(page)
    await page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    await expect(dialog).to_contain_text("Stop this cell")
    await take_screenshots(page, "shortcuts")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)


async def test_shortcuts_stop_add_and_move_between_cells(page: Page) -> None:
    await page.goto("/play?workflow=tutor")
    await expect(page.get_by_role("textbox", name=MESSAGE_FIELD, exact=True)).to_be_focused()
    await page.keyboard.press("Alt+v")
    await expect(cells(page)).to_have_count(2)
    await page.get_by_role("combobox", name="Send to").select_option("Send to this cell")
    await page.get_by_role("textbox", name=MESSAGE_FIELD, exact=True).focus()
    await page.keyboard.press("Alt+ArrowRight")
    await page.keyboard.type("To the second")
    await page.keyboard.press("Enter")
    await expect(messages(cell(page, 1, 2)).last).to_contain_text("word2 ")
    await expect(messages(cell(page, 1, 1))).to_have_count(0)

    await page.keyboard.press("Alt+ArrowLeft")
    await page.keyboard.type("To the first")
    await page.keyboard.press("Enter")
    await expect(messages(cell(page, 1, 1)).last).to_contain_text("word2 ")
    await page.keyboard.press("Control+.")
    await wait_until_idle(cell(page, 1, 1))
    await expect(messages(cell(page, 1, 1)).last).to_contain_text("Stopped")
    await page.keyboard.press("Control+Shift+.")
    await wait_until_idle(cell(page, 1, 2))
    await expect(messages(cell(page, 1, 1)).last).not_to_contain_text("done.")


async def test_shortcuts_open_a_new_chat_and_toggle_the_sidebar(page: Page) -> None:
    await page.goto("/play?workflow=scripted")
    await send_message(page, "The old one")
    await wait_for_answer(cell(page, 1), "The old one")
    await page.keyboard.press("Control+Shift+o")
    await expect(messages(cell(page, 1))).to_have_count(0)
    await expect(page.get_by_role("textbox", name=MESSAGE_FIELD, exact=True)).to_be_focused()

    await page.keyboard.press("Control+b")
    await expect(page.get_by_role("button", name="Show sidebar")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("button", name="Show sidebar")).to_be_visible()
    await page.keyboard.press("Control+b")
    await expect(page.get_by_role("button", name="Hide sidebar")).to_be_visible()


@pytest.mark.parametrize("event", [{"isComposing": True}, {"keyCode": 229}], ids=["composing", "the old code"])
async def test_enter_does_not_send_while_an_input_method_composes(page: Page, event: dict[str, object]) -> None:
    await page.goto("/play?workflow=scripted")
    field = page.get_by_role("textbox", name=MESSAGE_FIELD, exact=True)
    await field.fill("にほんご")
    await field.evaluate(PRESS_ENTER, event)
    await expect(field).to_have_value("にほんご")
    await expect(messages(cell(page, 1))).to_have_count(0)

    await field.press("Enter")
    await wait_for_answer(cell(page, 1), "にほんご")
    await expect(field).to_have_value("")


async def test_right_to_left_scripts_are_laid_out_right_to_left(page: Page) -> None:
    await page.goto("/play?workflow=scripted")
    field = page.get_by_role("textbox", name=MESSAGE_FIELD, exact=True)
    await field.fill("مرحبا بالعالم")
    await expect(field).to_have_css("direction", "rtl")
    await field.press("Enter")
    chat_cell = cell(page, 1)
    await wait_for_answer(chat_cell, "مرحبا بالعالم")
    await expect(messages(chat_cell).first.get_by_text("مرحبا بالعالم")).to_have_css("direction", "rtl")
    await expect(messages(chat_cell).last.get_by_text("مرحبا بالعالم")).to_have_css("direction", "rtl")
    await send_message(page, "And back again")
    await wait_for_answer(chat_cell, "And back again")
    await expect(messages(chat_cell).last.get_by_text("And back again")).to_have_css("direction", "ltr")
    await take_screenshot(page, "from-the-right")


async def test_the_accessibility_check_finds_unnamed_elements(page: Page) -> None:
    await page.goto("/workflows")
    await expect(page.get_by_role("link", name="tutor", exact=True)).to_be_visible()
    await page.evaluate("document.body.append(document.createElement('button'), document.createElement('img'))")
    unnamed = await page.evaluate(FIND_UNNAMED_CONTROLS)
    assert [line.split(":")[0] for line in unnamed] == ["no name", "no alt"]


async def test_all_pages_pass_the_accessibility_check(page: Page) -> None:
    await page.goto("/play?workflow=tutor")
    await expect(page.get_by_role("textbox", name=MESSAGE_FIELD, exact=True)).to_be_focused()
    await page.keyboard.press("Alt+v")
    await send_message(page, "# Hello\n\n```python\nprint(1)\n```")
    await expect(messages(cell(page, 1)).last).to_contain_text("word2 ")
    assert await page.evaluate(FIND_UNNAMED_CONTROLS) == []
    await page.get_by_role("button", name="Stop all").click()
    await wait_until_idle(page.locator("main"))
    await expect(cell(page, 1).get_by_role("log")).to_be_visible()
    await expect(page.get_by_role("main")).to_have_count(1)
    await messages(cell(page, 1)).last.hover()
    assert await page.evaluate(FIND_UNNAMED_CONTROLS) == []
    await page.get_by_role("button", name=re.compile("^Parameters")).first.click()
    await expect(page.get_by_role("dialog", name="Parameters")).to_be_visible()
    assert await page.evaluate(FIND_UNNAMED_CONTROLS) == []
    await page.keyboard.press("Escape")
    await page.get_by_role("radio", name="Single-turn").click()
    await expect(page.get_by_role("table")).to_be_visible()
    assert await page.evaluate(FIND_UNNAMED_CONTROLS) == []

    for path in ("/workflows", "/workflows/tutor", "/workflows/headline", "/settings", "/play/no/where"):
        await page.goto(path)
        await expect(page.get_by_role("main").get_by_role("heading").first).to_be_visible()
        assert await page.evaluate(FIND_UNNAMED_CONTROLS) == [], path
    await page.goto("/workflows")
    await page.get_by_role("button", name="Connect a service").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    assert await page.evaluate(FIND_UNNAMED_CONTROLS) == []
