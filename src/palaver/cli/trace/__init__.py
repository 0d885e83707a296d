"""`palaver trace`: follow, show, export and import traces.

Modules:

    command      the group, and `show`
    tail         `tail`
    export       `export`
    importer     `import`
    selection    options that select traces
"""
