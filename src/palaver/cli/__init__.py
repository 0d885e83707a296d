"""The command line: one file per command, and each only parses, calls and prints.

main        the group, and how errors are shown
finding     which workflow a NAME, TARGET or URL means
records     the values in a file of JSON or JSONL
transcript  a conversation as lines that do a terminal no harm
bar         a progress bar, and printing beside it
"""
