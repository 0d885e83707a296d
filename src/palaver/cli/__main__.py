"""`python -m palaver.cli`: the same command, for a process that knows only its interpreter."""

from palaver.cli.main import main

main()
