"""Documentation: a folder of Markdown, indexed in SQLite and searched for each question.

Modules:

    markdown          read the files of a folder and split them into chunks
    index             the index of a folder: one SQLite file, updated incrementally
    embeddings        vectors of texts, and the search for the nearest ones
    search            search an index
    synonyms          words that mean about the same
    previous_results  results that the client sends back with the next turn (`meta.rag`)
"""
