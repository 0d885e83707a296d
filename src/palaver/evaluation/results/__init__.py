"""From results to figures: summaries, comparisons, gates and exports.

    arrays        scores and cells as numpy arrays
    compare       a candidate compared with a base; flaky and regressed rows
    export        files: CSV, HTML, JSON Lines, JUnit, Markdown
    figures       the values of summaries and comparisons
    gates         conditions that make a build fail
    load          results and reports from the database
    statistics    bootstrap, Wilson, McNemar, Holm
    summary       summaries by variant, evaluator and slice

Only these modules import numpy.
"""
