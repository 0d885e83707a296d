"""Live evaluators, which score traces as they arrive.

tables      the tables of live evaluation
evaluators  live evaluators
cases       traces and sessions to be scored
scores      scores and statistics

The API and the tables call a live evaluator a rule.
"""
