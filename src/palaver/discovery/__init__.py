"""Find workflows: local ones by target, remote ones by URL.

frameworks/remote.py calls the services that are found here.

    workflow_loader  load workflows and evaluators from modules, files and folders
    registry         the workflows that are served, by name
    connections      remote services as workflows
    config           connections declared in palaver.toml
    probe            find out what a URL serves
    evidence         read the documents that a remote service publishes
"""
