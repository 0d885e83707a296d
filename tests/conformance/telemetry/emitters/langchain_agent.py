"""A LangChain agent with a tool, instrumented by OpenInference: two turns of one session, each a trace."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openinference.instrumentation import using_attributes
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
LangChainInstrumentor().instrument(tracer_provider=provider)


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return {"Oslo": "4 °C", "Bergen": "9 °C"}[city]


class Guide(BaseRetriever):
    """Finds one page on everything."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [Document(page_content=f"{query}: bring a coat.", metadata={"page": 7})]


agent = create_agent(ChatOpenAI(model="gpt-4o-mini", temperature=0), [weather], system_prompt="Be brief.")
messages = []
for question in ("What is the weather in Oslo?", "And in Bergen?"):
    with using_attributes(session_id="s-1", user_id="u-1"):
        messages = agent.invoke({"messages": [*messages, {"role": "user", "content": question}]})["messages"]
with using_attributes(session_id="retrieval", user_id="u-1"):
    Guide().invoke("Oslo")
provider.shutdown()
