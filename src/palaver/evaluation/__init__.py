"""Evaluation: run variants over a test set, score the answers, and compare the results.

    agenta              translate Agenta's evaluators
    case                the case that evaluators score
    context             the interface of what evaluators may use; spending on models
    embeddings          cached embeddings, and local models
    evaluator           the @evaluator decorator, and parameters of evaluators
    evaluators          the built-in evaluators
    json_schema         bounded JSON Schema validation
    json_values         paths into JSON, and JSON in text
    judge_prompt        prompts for judges
    judge_verdict       verdicts of judges: ask, validate, combine
    live                live evaluators: score traces as they arrive
    network_context     evaluator contexts: with judges, providers and webhooks, or offline
    plan                from a request to a fixed plan
    providers           model providers over HTTP
    registry            all known evaluators, by key
    results             summaries, comparisons, gates and exports
    review_questions    questions for human reviewers
    reviews             human reviews
    runner              run the cells of a plan
    score               scores, and what evaluators may return
    target              the part of a case that an evaluator scores

Which of them may import which is defined in pyproject.toml, "The layers of evaluation".
"""
