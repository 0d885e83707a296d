"""Files in a message: chosen, pasted or dropped, sent, shown, and kept after a reload."""

import base64
import re
import struct
import zlib
from pathlib import Path

from playwright.async_api import Browser, Locator, Page, expect

from tests.e2e.conftest import FLOWS, LAPTOP
from tests.e2e.playground import cell, messages, send_message, take_screenshot, take_screenshots, wait_for_answer
from tests.server_process import server_process


def png(width: int, height: int) -> bytes:
    """A picture in one colour."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = (b"\0" + b"\x46\x4f\xc8" * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


PICTURE = png(96, 64)
NOTES = "Ein paar Notizen mit Umlauten: äöü\n".encode()

TRANSFER = """([name, type, data]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name, {type}));
  return transfer;
}"""
PASTE = """(field, transfer) => field.dispatchEvent(
  new ClipboardEvent('paste', {clipboardData: transfer, bubbles: true, cancelable: true})
)"""


def attached_files(page: Page) -> Locator:
    """The files attached to the message."""
    return page.get_by_role("list", name="Attached files").get_by_role("listitem")


async def attach_file(page: Page, name: str, kind: str, data: bytes) -> None:
    """Attach a file as a person does: from the browser's own dialog."""
    async with page.expect_file_chooser() as chooser:
        await page.get_by_role("button", name="Attach files").click()
    await (await chooser.value).set_files([{"name": name, "mimeType": kind, "buffer": data}])


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a downloaded file."""
    return path.read_bytes()


async def expect_drawn(image: Locator, width: int = 96) -> None:
    """Wait until the picture is shown with the expected width."""
    await expect(image).to_be_visible()
    await expect(image).to_have_js_property("naturalWidth", width)


async def test_chosen_files_are_previewed_sent_and_available_after_a_reload(page: Page) -> None:
    await page.goto("/play?workflow=clerk")
    await attach_file(page, "blue.png", "image/png", PICTURE)
    await expect(attached_files(page)).to_have_count(1)
    await expect_drawn(attached_files(page).locator("img"))
    await attach_file(page, "notes ü.txt", "text/plain", NOTES)
    await expect(attached_files(page)).to_have_count(2)
    await expect(attached_files(page).nth(1)).to_contain_text("notes ü.txt")
    await take_screenshots(page, "attached")
    await send_message(page, "Look")

    chat_cell = cell(page, 1)
    await wait_for_answer(chat_cell, f"notes ü.txt, text/plain, {len(NOTES)} bytes")
    await expect(messages(chat_cell).last).to_contain_text(f"blue.png, image/png, {len(PICTURE)} bytes")
    await expect(messages(chat_cell).last).to_contain_text("You said 'Look' and gave me 2.")
    await expect(attached_files(page)).to_have_count(0)
    await take_screenshots(page, "files")

    await page.reload()
    question = messages(chat_cell).first
    await expect_drawn(question.get_by_role("img", name="blue.png"))
    async with page.expect_download() as download:
        await question.get_by_role("link", name="notes ü.txt").click()
    assert read_bytes(await (await download.value).path()) == NOTES

    await question.get_by_role("button", name="Open blue.png").click()
    await expect_drawn(page.get_by_role("dialog", name="blue.png").get_by_role("img", name="blue.png"))


async def test_files_can_be_pasted_dropped_and_removed(page: Page) -> None:
    await page.goto("/play?workflow=clerk")
    field = page.get_by_role("textbox", name="Message", exact=True)
    picture = await page.evaluate_handle(TRANSFER, ["shot.png", "image/png", base64.b64encode(PICTURE).decode()])
    await field.evaluate(PASTE, picture)
    await expect(attached_files(page)).to_have_count(1)

    notes = await page.evaluate_handle(TRANSFER, ["notes.txt", "text/plain", base64.b64encode(NOTES).decode()])
    await field.dispatch_event("drop", {"dataTransfer": notes})
    await expect(attached_files(page)).to_have_count(2)
    await page.get_by_role("button", name="Remove shot.png").click()
    await expect(attached_files(page)).to_have_count(1)

    await page.get_by_role("button", name="Send", exact=True).click()  # A file alone is a message, too.
    await wait_for_answer(cell(page, 1), f"notes.txt, text/plain, {len(NOTES)} bytes")
    await expect(messages(cell(page, 1)).last).to_contain_text("You said '' and gave me 1.")


async def test_a_file_over_the_size_limit_is_rejected_with_a_message(browser: Browser, tmp_path: Path) -> None:
    with server_process(tmp_path, FLOWS.read_text("utf-8"), max_file=str(1024 * 1024)) as small:
        context = await browser.new_context(base_url=small.url, viewport=LAPTOP)
        page = await context.new_page()
        await page.goto("/play?workflow=clerk")
        await attach_file(page, "huge.bin", "application/octet-stream", bytes(1024 * 1024 + 1))
        await expect(
            page.get_by_text(re.compile("huge.bin exceeds the server.s file size limit of 1 MB"))
        ).to_be_visible()
        await expect(attached_files(page)).to_have_count(0)
        await take_screenshot(page, "too-large")

        await attach_file(page, "fits.bin", "application/octet-stream", bytes(1024 * 1024))
        await expect(attached_files(page)).to_have_count(1)
        await context.close()
