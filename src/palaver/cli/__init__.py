"""The command line. A command parses its options, calls the library and prints.

Modules:

    main               the group of commands, and error output
    options            options that several commands have
    database           the database that --db selects
    workflow_lookup    the workflow that a NAME, TARGET or URL refers to
    input_files        reading of files: JSON, JSONL, progress bars
    output             JSON, counts, transcripts and spans for terminals
    backup             palaver backup
    call               palaver call
    chat               palaver chat
    conform            palaver conform
    demo               palaver demo
    doctor             palaver doctor
    erase              palaver erase
    eval               palaver eval
    extract            palaver extract
    inspect            palaver inspect
    key                palaver key
    migrate            palaver migrate
    restore            palaver restore
    review             palaver review
    security_probe     palaver doctor --attack
    serve              palaver serve
    testset            palaver testset
    thread             palaver thread
    trace              palaver trace
    variant            palaver variant
    worker             palaver worker
"""
