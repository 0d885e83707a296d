"""`python -m palaver_jobchat`: the same as the command `palaver-jobchat`."""

from palaver_jobchat.cli import main

main()
