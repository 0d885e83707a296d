"""The REST API under /api: Litestar controllers, a module per resource.

app                 the application: all controllers, bound to their dependencies
boards              saved grids of the playground, and the runs of their cells
connections         workflows on other servers, added by URL
conventions         request bodies, timestamps, ETags, idempotency and errors, shared by all controllers
dependencies        the base class of the controllers, and how they get their dependencies
evaluation_export   an evaluation as a file
evaluation_results  results, figures and comparisons of evaluations
evaluation_views    evaluations, results and evaluators as responses
evaluations         start, list, cancel and follow evaluations
evaluators          evaluators, and trials of one on a case
feedback            thumbs and comments on runs
files               uploaded files, and conversations extracted from JSON
html_export         traces, sessions and threads as HTML pages
keys                API keys, and browser sessions opened with one
live_evaluators     live evaluators, which score live traffic (/api/online)
openai_files        uploaded files, for OpenAI's SDKs (/v1/files)
projects            projects, for administrators of the default one
review_views        reviews and their items as responses
reviews             human reviews and their items
runs                runs: list, read, follow and cancel
saved_views         saved queries of the web pages (/api/views)
sessions            sessions of traces, and traces as conversations
streaming           streamed responses
system              bootstrap of the page, version, settings, erasure
testset_files       import and export of test sets
testset_revisions   revisions of test sets, their rows, and rows made from recorded calls
testsets            test sets, and their parts as responses
thread_files        import and export of threads
thread_messages     messages of a thread, and turns that are answered by a run
threads             threads, and their parts as responses
trace_export        traces as JSON Lines, or as HTML
trace_views         traces, spans and sessions as responses, and queries for them
traces              traces, their scores, and their spans
variants            variants of workflows, their versions and files
workflows           workflows that are served here
"""
