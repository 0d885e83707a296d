"""Live evaluators: score traces and sessions as they arrive.

    scorer           runs the evaluators of a live evaluator on one case
    trace_cases      traces and sessions as cases
    trace_selection  which traces a live evaluator selects: filter and sample
    worker           scans new traces and schedules their scoring

A live evaluator, called `rule` in the code, has a filter, a sample rate and evaluators.
"""
