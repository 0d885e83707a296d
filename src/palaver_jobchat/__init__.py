"""Job Chat: an assistant that helps people write OpenFn jobs.

One chat built on nothing but Palaver's public names: `palaver serve palaver_jobchat:app`.
"""
