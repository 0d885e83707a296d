"""The waist: the few values that everything else speaks, and the pure functions on them.

Nothing here does I/O, reads a clock or makes a random number, and nothing here knows a protocol or a framework.

    parts, messages     what is said
    calls, usage        what is asked, and what it came to
    events              how an answer arrives, piece by piece
    grammar             makes a lawful stream of events out of what a producer gives; its pieces are items (what opens,
                        grows and closes), wholes (what comes in one go) and naming (ids of messages and items)
    fold                makes the whole reply out of a stream
    history             what may be believed of messages that a client sent
    descriptions        what a workflow says about itself
    elements            one element of a list: who speaks, does it say something, whose dialect is it
    recognition         is this list messages, and in which dialect
    extraction/         the conversation in any value: strictly as it stands there, or read from every dialect
    dialects/           messages to and from the shapes that others use
    ids, jsons, kinds   ids of bounded length; JSON that a stranger may have written; what anybody's value really is
"""
