"""`palaver testset`: import, export, list, show, compare and convert test sets.

Modules:

    command      the group, and `list`, `show` and `diff`
    files        `import`, `export` and `convert`
    selection    the test set and revision that a command is about
"""
