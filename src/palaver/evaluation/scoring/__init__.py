"""What an evaluator is: the case that it sees, the score that it says, and how one is declared."""
