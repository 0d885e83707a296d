"""docs/concepts/benchmarks.md contains exactly the figures of the last measurement."""

from benchmarks import report
from benchmarks.__main__ import PARTS
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.report import Part, Row

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
        "| figure | measured | goal |",
        "|---|---|---|",
        "",
        "## startup",
        "",
        "Here; 2026-11-16, load average 0.3 before the run",
        "",
        "| figure | measured      | goal             | how it was measured |",
        "|--------|---------------|------------------|---|",
        "| start  | 0.48 ± 0.02 s | ≤ 1.5 met        | median of 5 |",
        "| idle   | 131 MB        | ≤ 110 **missed** | RSS |",
        "",
        "## streaming",
        "",
        "Here; 2026-11-17, load average 1 before the run",
        "",
        "| figure | measured | goal                   | how it was measured |",
        "|--------|----------|------------------------|---|",
        "| share  | 0.74     | ≥ 0.7 (must ≥ 0.6) met | of a bare one |",
    ]


def test_rows_of_the_overview_show_the_figures_they_name() -> None:
    rows = [
        Row("starting · waiting", ["startup: start", "startup: idle"]),
        Row("streams", ["streaming: share"]),
        Row("traces", ["traces: spans"]),
    ]
    page = report.render_page(EXAMPLE_PARTS, rows)

    assert page.removeprefix(report.INTRODUCTION).strip().splitlines()[:7] == [
        "| figure | measured | goal |",
        "|---|---|---|",
        "| starting · waiting | 0.48 ± 0.02 s · 131 MB | ≤ 1.5 met · ≤ 110 **missed** |",
        "| streams | 0.74 | ≥ 0.7 (must ≥ 0.6) met |",
        "| traces | not measured yet |  |",
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

    assert (
        f"64 streams carried {figures['/invocations, events / bare ASGI']:.0%} as many events per second as a bare ASGI"
        f" application and {figures['/invocations, events / MLflow']:.1f} times as many as MLflow's AgentServer,"
        f" and an idle stream used {figures['idle stream']:.0f} KiB."
    ) in readme
