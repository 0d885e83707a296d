"""The command line: one file per command, and each only parses, calls and prints.

main        the group, and how errors are shown
finding     which workflow a NAME, TARGET or URL means
"""
