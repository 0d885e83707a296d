"""The store that keeps nothing."""

from palaver.engine.store import MemoryRunStore, RunStore
from tests.engine.run_factory import new_engine, ran
from tests.engine.test_engine import answer


async def test_memory_keeps_the_promise_of_a_store_and_costs_nothing() -> None:
    store: RunStore = MemoryRunStore()

    run = await ran(answer, engine=new_engine(store=store))

    assert run.finished
    assert vars(store) == {}
