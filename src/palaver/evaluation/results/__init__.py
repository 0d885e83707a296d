"""From results to figures: summaries, comparisons, filters, gates and exports.

    arrays        scores and cells as numpy arrays
    compare       a candidate compared with a base
    export        files: CSV, HTML, JSON Lines, JUnit, Markdown
    figures       the values of summaries and comparisons
    filters       cells of flaky and regressed rows
    gates         conditions that make a build fail
    load          results and reports from the database
    statistics    bootstrap, Wilson, McNemar, Holm
    summary       summaries by variant, evaluator and slice

Only these modules import numpy.
"""
