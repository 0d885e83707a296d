"""The program for Node.js in docs/guides/production-traces.md is traced as the page says."""

from pathlib import Path

from tests.conformance.node_drivers import HERE
from tests.conformance.telemetry.trace_server import TraceServer
from tests.docs.pages import DOCS, blocks


def test_the_program_of_the_guide_sends_its_conversation_with_session_and_user(
    trace_server: TraceServer, tmp_path: Path
) -> None:
    [block] = blocks((DOCS / "guides/production-traces.md").read_text("utf-8"), "js")
    program = tmp_path / "service.mjs"
    program.write_text(block.source, "utf-8")
    (tmp_path / "node_modules").symlink_to(HERE / "node_modules")  # Node resolves packages from the file's folder.

    with trace_server.create_project() as view:
        view.run(str(program))

        [row] = view.rows("s-2")
    texts = row["in"]["text"], row["out"]["text"]
    assert (texts, row["user"], row["service"]) == (("Where is my order?", "Tomorrow."), "ada", "shop")
