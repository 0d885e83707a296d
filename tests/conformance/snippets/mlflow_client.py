import httpx
from mlflow.types.responses import ResponsesAgentRequest, ResponsesAgentResponse

request = ResponsesAgentRequest.model_validate({"input": [{"role": "user", "content": "I need a holiday"}]})

answer = httpx.post("http://localhost:8642/eliza/invocations", json=request.model_dump(exclude_none=True))
response = ResponsesAgentResponse.model_validate(answer.json())
for item in response.model_dump()["output"]:
    if item["type"] == "message":
        print(item["content"][0]["text"])
