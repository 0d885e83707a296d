"""Evaluation: run variants over a test set, score the answers, and compare the results.

    agenta              translate Agenta's evaluators
    case                the case that evaluators score
    context             what evaluators may use besides the case
    embeddings          cached embeddings, and local models
    evaluator           the @evaluator decorator
    evaluators          the built-in evaluators
    json_equality       when JSON values are equal
    json_path           paths into JSON
    json_schema         bounded JSON Schema validation
    json_search         find JSON in text
    judges              prompts and verdicts of judges
    live                live evaluators: score traces as they arrive
    network_context     the context of a server: judges, providers, webhooks
    offline_context     the context without network access
    parameters          parameters of evaluators, and their JSON Schema
    plan                from a request to a fixed plan
    providers           model providers over HTTP
    registry            all known evaluators, by key
    results             summaries, comparisons, gates and exports
    review_questions    questions for human reviewers
    reviews             human reviews
    runner              run the cells of a plan
    score               scores, and what evaluators may return
    target              the part of a case that an evaluator looks at
    webhooks            signed requests to webhooks
    workflow_judge      workflows as judges

Which of them may import which is in pyproject.toml, "The layers of evaluation".
"""
