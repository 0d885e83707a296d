"""OpenAI Agents SDK: an `Agent` as a workflow.

adapter  the adapter: wrap an agent, convert a history to input items
reader   stream events, run items and results of a run
steps    trace steps through the SDK's spans and hooks
"""
