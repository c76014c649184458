"""A shrunken plan trained by a few processes, held against one process and the planner."""
