"""`palaver eval`: run a test set over a workflow and score the answers.

Modules:

    command     the command
    options     parsing of evaluators, variants and column mappings
    testset     the test set: a file, a stored set or an installed one
    runner      running one evaluation, and loading its outcome
    progress    progress on standard error
    report      printing of the outcome
"""
