"""Export an evaluation as a file. Each format is a generator of bytes from a report.

    formats    all formats by name; CSV, JSON Lines, JUnit XML and Markdown
    html       a page for people
    report     what exports are made of

Only JSON Lines contains the full bodies of cells.
"""
