"""A plan of full size on fake tensors, one rank of every stage, held against the planner."""
