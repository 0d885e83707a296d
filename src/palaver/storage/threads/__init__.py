"""Threads: conversations as trees of messages.

    repository     threads, their messages and active runs
    message_tree   nodes and branches
    copies         copies and forks
    import_export  threads as files

The tables are in palaver.storage.tables.
"""
