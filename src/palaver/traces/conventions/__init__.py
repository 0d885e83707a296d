"""Conventions: whose attribute names mean what. One file each, of one shape (base.py); mapping.py asks them in order.

    own, gen_ai (with logfire), openinference, ai_sdk, agenta, mlflow, openllmetry, events

What they share: reading.py looks into attributes, messages.py makes messages of what it finds, out of loose fields with
loose.py and out of events with bodies.py; definitions.py unwraps tools, meanings.py translates kinds and endings.
"""
