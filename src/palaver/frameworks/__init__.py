"""Somebody's agent or service as a workflow of ours, an adapter each; no adapter knows another.

langchain       LangChain's models, runnables and agents, LangGraph's graphs
openai_agents   an agent of the OpenAI Agents SDK
pydantic_ai     an agent of Pydantic AI
remote          a service that is reached by URL

What they share: adopted, telling, parameters. How to add one: docs/adding-a-framework.md.
"""
