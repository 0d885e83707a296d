"""Live evaluators: score traces and sessions as they arrive.

    scorer         runs the evaluators of a rule on one case
    trace_cases    traces and sessions as cases
    worker         selects traces and schedules their scoring

A rule has a filter, a sample rate and evaluators.
"""
