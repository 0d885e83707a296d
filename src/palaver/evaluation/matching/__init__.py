"""What evaluators compare with: texts, JSON, tool calls, citations. Pure, and shared by those that need it."""
