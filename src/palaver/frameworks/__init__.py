"""Somebody's agent or service as a workflow of ours: one file each.

remote      a service that is reached by URL
"""
