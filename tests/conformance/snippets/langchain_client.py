from langchain_openai import ChatOpenAI
from pydantic import SecretStr

model = ChatOpenAI(
    model="eliza", base_url="http://localhost:8642/v1", api_key=SecretStr("none"), use_responses_api=True
)

print(model.invoke("I need a holiday").text)

for chunk in model.stream("I need a holiday"):
    print(chunk.text, end="", flush=True)
print()
