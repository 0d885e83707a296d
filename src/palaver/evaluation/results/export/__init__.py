"""Export an evaluation as a file. Each format is a generator of bytes from a report.

    formats    all formats by name; CSV, JSON Lines, JUnit XML and Markdown
    html       a single HTML page
    report     the report that all formats are made from

Only JSON Lines contains the full bodies of cells.
"""
