"""`palaver doctor`: checks of this installation. No check changes anything.

Modules:

    command     the command
    checks      packages, database, port, clock and file modes; printing of results
    settings    unknown, unsafe or conflicting settings
"""
