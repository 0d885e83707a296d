"""What an author declares: a function becomes a workflow that describes itself, takes calls and gives values.

    declare     @chat and @workflow; options are its other words
    workflow    the promise that every workflow keeps, and the one made of a Python function
    signature   parameters of a function -> inputs, parameters, history, context; models are config models
    shapes      one annotation -> JSON Schema and validation; schemas makes whole documents of them
    binding     a call -> the function's arguments, or everything that is wrong with it
    context     what a running workflow may ask and say
    produce     a function of any kind -> a stream of the values it gives; threads carries sync code
    frameworks  whose object is this? Adapters, found by entry point
    replies     any value -> messages, parts and events (the reply grammar)

Running is left to engine/, and what stands on the wire to protocols/.
"""
