"""`palaver doctor`: checks of this installation. No check changes anything.

Modules:

    command     the command
    check       the result of a check, and printing of results
    packages    required packages and extras
    settings    unknown, unsafe or contradictory settings
    database    whether the database is there, current, writable, and has room
    machine     the port, the clock and file modes
"""
