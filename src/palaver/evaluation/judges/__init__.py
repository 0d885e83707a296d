"""Judges: models and workflows that are asked for a verdict on a case.

    prompt     the question, filled with parts of the case
    verdict    the answer: asked for, validated, combined

Models and workflows that can be asked implement `JudgeModel`.
"""
