"""The in-process client stops its application when its block ends."""

import asyncio

from palaver.testing import client, scripted

ENDLESS_REQUEST = {"messages": [], "inputs": {"script": [{"text": "a"}, {"sleep": 3600}]}}


async def test_leaving_the_client_block_ends_running_runs() -> None:
    async with client(scripted) as http:
        request = asyncio.create_task(http.post("/invoke", json=ENDLESS_REQUEST))
        async with asyncio.timeout(60):
            while not (running := [task for task in asyncio.all_tasks() if task.get_name().startswith("run_")]):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    async with asyncio.timeout(60):
        await asyncio.wait(running)
        answer = await request

    assert all(task.done() for task in running)
    assert answer.status_code == 503
