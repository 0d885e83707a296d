"""Live evaluators: score traces and sessions as they arrive.

    scorer           runs the evaluators of a rule on one case
    trace_cases      traces and sessions as cases
    trace_selection  which traces a rule selects: filter and sample
    worker           scans new traces and schedules their scoring

A rule has a filter, a sample rate and evaluators.
"""
