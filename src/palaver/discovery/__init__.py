"""Finding workflows: those of our own by target, a stranger's by its URL; is it a chat, and how do we know."""
