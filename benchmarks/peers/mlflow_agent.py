"""MLflow's AgentServer with the agent that benchmarks.workflows has: 200 pieces of text, and an echo."""

# MLflow's models take more than their annotations say.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import asyncio
import os

import mlflow

if "NO_TRACES" in os.environ:
    mlflow.tracing.disable()

from mlflow.genai.agent_server import AgentServer, invoke, stream
from mlflow.types.responses import (
    ResponsesAgentRequest,
    ResponsesAgentResponse,
    ResponsesAgentStreamEvent,
    create_text_delta,
    create_text_output_item,
)

TOKENS = [f"token{number} " for number in range(200)]
ITEM = "msg_01m7f9v7cxgf9qj54rvxz6dfgw_1"


@invoke()
async def say(request: ResponsesAgentRequest) -> ResponsesAgentResponse:
    return ResponsesAgentResponse(output=[create_text_output_item(text=request.input[-1].content, id=ITEM)])


@stream()
async def tokens(request: ResponsesAgentRequest):  # noqa: ARG001 - an agent takes a request
    for token in TOKENS:
        yield ResponsesAgentStreamEvent(**create_text_delta(token, ITEM))
        await asyncio.sleep(0)
    yield ResponsesAgentStreamEvent(
        type="response.output_item.done", item=create_text_output_item(text="".join(TOKENS), id=ITEM)
    )


app = AgentServer("ResponsesAgent").app
