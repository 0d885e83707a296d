"""`python -m palaver.cli`: the same command, for child processes."""

from palaver.cli.main import main

main()
