"""Pydantic AI: an `Agent` as a workflow.

adapter  the adapter: wrap an agent, convert a history to its messages
reader   stream events, messages and results of a run
steps    trace steps through a capability
"""
