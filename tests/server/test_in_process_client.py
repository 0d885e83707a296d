"""The in-process client ends everything of its application when its block ends."""

import asyncio

from palaver.testing import client, scripted

ENDLESS = {"messages": [], "inputs": {"script": [{"text": "a"}, {"sleep": 3600}]}}


async def test_a_run_that_still_goes_on_when_the_block_ends_is_ended() -> None:
    async with client(scripted) as http:
        asked = asyncio.create_task(http.post("/invoke", json=ENDLESS))
        while not (running := [task for task in asyncio.all_tasks() if task.get_name().startswith("run_")]):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    async with asyncio.timeout(20):
        await asyncio.wait(running)
        answer = (await asyncio.gather(asked, return_exceptions=True))[0]

    assert all(task.done() for task in running)
    assert isinstance(answer, BaseException) or answer.status_code == 503
