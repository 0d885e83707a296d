"""Export an evaluation as a file. Each format has a function `write(report) -> Iterator[bytes]`, which streams.

    csv         a table with a line for each cell and evaluator
    formats     all formats by name
    html        a page for people
    jsonl       everything, for programs
    junit       JUnit XML for build servers
    markdown    a summary for a pull request
    report      what exports are made of

Only `jsonl` reads the full bodies of cells.
"""
