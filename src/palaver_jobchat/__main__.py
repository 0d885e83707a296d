"""`python -m palaver_jobchat`, the same as `palaver-jobchat`."""

from palaver_jobchat.cli import main

main()
