"""Adaptors: their names, and the descriptions of their functions for prompts.

Modules:

    names           parse adaptor names and choose versions
    entries         an adaptor's description as entries, and the selection of entries for a prompt
    examples        example jobs per major version of an adaptor
    library         look up descriptions: the operator's folder or URL, then the npm registry
    npm_registry    find npm's registry, list a package's versions and unpack its description
    http_fetch      limited HTTP downloads, and concurrent requests for the same download joined into one
"""
