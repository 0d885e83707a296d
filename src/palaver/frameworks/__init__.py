"""Agents and services of other frameworks as workflows, one adapter each; no adapter imports another.

    langchain      LangChain's models, runnables and agents, LangGraph's graphs
    openai_agents  an agent of the OpenAI Agents SDK
    pydantic_ai    an agent of Pydantic AI
    remote         a service that is reached by URL
    base           shared code, and the installation of step listeners

How to add one: docs/contributing/adding-a-framework.md.
"""
