"""docs/concepts/benchmarks.md contains exactly the figures of the last measurement."""

from benchmarks import report
from benchmarks.__main__ import PARTS
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.report import Group, Part, Row

START = Figure(name="start", value=0.482, unit="s", spread=0.02, goal=at_most(1.5), how="median of 5")
IDLE = Figure(name="idle", value=131.4, unit="MB", goal=at_most(110), how="RSS")
SHARE = Figure(name="share", value=0.74, goal=at_least(0.7, must=0.6), how="of a bare one")
EXAMPLE_PARTS = {
    "startup": Part(where="Here", day="2026-11-16", load=0.3, figures=[START, IDLE]),
    "streaming": Part(where="Here", day="2026-11-17", load=1, figures=[SHARE]),
}


def test_each_part_is_shown_with_its_machine_date_and_load() -> None:
    lines = report.render_page(EXAMPLE_PARTS, []).removeprefix(report.INTRODUCTION).strip().splitlines()

    assert lines == [
        "| subject | figure | result | goal |",
        "|---|---|---|---|",
        "",
        "## startup",
        "",
        report.DESCRIPTIONS["startup"],
        "",
        "Here; 2026-11-16, load average 0.3 before the run",
        "",
        "| figure | result        | goal                 | method |",
        "|--------|---------------|----------------------|---|",
        "| start  | 0.48 ± 0.02 s | ≤ 1.5 s, met         | median of 5 |",
        "| idle   | 131 MB        | ≤ 110 MB, **missed** | RSS |",
        "",
        "## streaming",
        "",
        report.DESCRIPTIONS["streaming"],
        "",
        "Here; 2026-11-17, load average 1 before the run",
        "",
        "| figure | result | goal                         | method |",
        "|--------|--------|------------------------------|---|",
        "| share  | 0.74   | ≥ 0.7 (required: ≥ 0.6), met | of a bare one |",
    ]


def test_each_part_has_a_description() -> None:
    assert list(report.DESCRIPTIONS) == list(PARTS)


def test_rows_of_the_overview_show_the_figures_they_name() -> None:
    groups = [
        Group("Server", [Row("start", "startup: start"), Row("memory", "startup: idle")]),
        Group("Streams", [Row("events/s", "streaming: share")]),
        Group("Traces", [Row("spans/s", "traces: spans")]),
    ]
    page = report.render_page(EXAMPLE_PARTS, groups)

    assert page.removeprefix(report.INTRODUCTION).strip().splitlines()[:8] == [
        "| subject | figure | result | goal |",
        "|---|---|---|---|",
        "| Server | start | 0.48 ± 0.02 s | ≤ 1.5 s, met |",
        "| | memory | 131 MB | ≤ 110 MB, **missed** |",
        "| Streams | events/s | 0.74 | ≥ 0.7 (required: ≥ 0.6), met |",
        "| Traces | spans/s | not measured yet | |",
        "",
        "## startup",
    ]


def test_the_page_shows_the_last_measurement() -> None:
    parts = report.load_parts()

    assert list(parts) == [name for name in PARTS if name in parts]
    assert report.PAGE.read_text("utf-8") == report.render_page(parts)


def test_the_readme_has_figures_of_the_last_measurement() -> None:
    figures = {figure.name: figure.value for part in report.load_parts().values() for figure in part.figures}
    readme = " ".join((report.ROOT / "README.md").read_text("utf-8").split())

    bare, mlflow = (
        figures[f"/invocations: events/s relative to {baseline}"] for baseline in ("the bare ASGI app", "MLflow")
    )
    assert (
        f"64 streams carried {bare:.0%} as many events per second as a bare ASGI application"
        f" and {mlflow:.1f} times as many as MLflow's AgentServer,"
        f" and an idle stream used {figures['memory per idle stream']:.0f} KiB of memory."
    ) in readme
