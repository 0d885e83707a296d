"""The benchmark of the web page: reading a browser profile, and the report."""

import msgspec
import pytest

from benchmarks.browser import LongestTask, find_longest_task
from benchmarks.context import MeasurementError
from benchmarks.figures import at_most
from benchmarks.parts import page

MAIN_THREAD = {"name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "CrRendererMain"}}
OTHER_THREAD = {"name": "thread_name", "pid": 2, "tid": 1, "args": {"name": "CrBrowserMain"}}


def task(milliseconds: float, processor: float, *, pid: int = 1) -> dict[str, object]:
    return {"name": "RunTask", "pid": pid, "tid": 1, "dur": milliseconds * 1000, "tdur": processor * 1000}


def encode_profile(*events: dict[str, object]) -> bytes:
    return msgspec.json.encode({"traceEvents": [*events], "metadata": {}})


def test_the_longest_task_is_taken_from_the_main_thread_of_the_page() -> None:
    trace = encode_profile(
        MAIN_THREAD, OTHER_THREAD, task(40, 10), task(30, 20), task(900, 900, pid=2), {**task(500, 1), "name": "Commit"}
    )

    assert find_longest_task(trace) == LongestTask(task=40, processor=20)


def test_processor_time_longer_than_the_task_is_not_counted() -> None:
    assert find_longest_task(encode_profile(MAIN_THREAD, task(6, 143), task(20, 15))) == LongestTask(
        task=20, processor=15
    )


def test_an_unfinished_task_is_ignored() -> None:
    assert find_longest_task(
        encode_profile(MAIN_THREAD, {"name": "RunTask", "pid": 1, "tid": 1}, task(8, 2))
    ) == LongestTask(task=8, processor=2)


def test_a_profile_without_the_page_is_a_measurement_error() -> None:
    with pytest.raises(MeasurementError, match="recorded no tasks"):
        find_longest_task(encode_profile(OTHER_THREAD, task(900, 900, pid=2)))


def test_the_weight_figure_names_the_largest_file() -> None:
    figure = page.weight_figure({"index.html": 1_000, "assets/main-1.js": 252_000, "assets/main-2.css": 60_000})

    assert (figure.value, figure.unit, figure.goal, figure.verdict) == (313, "KB", at_most(350), "met")
    assert figure.how == "the document and the 2 files that it links to; the largest (.js) is 252 KB"
