"""A run as a file: for machines that watch builds, for a comment, for a table, for programs, and to be read anywhere.

Each format is a function `write(report) -> Iterator[bytes]` in a module of its own. It asks for nothing: a `Report`
has the figures, and gives the cells one by one, so that what is long is never in memory as a whole.
"""
