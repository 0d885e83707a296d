"""The world outside of a case: models, workflows that judge, webhooks, vectors."""
