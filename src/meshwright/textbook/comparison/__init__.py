"""What the planner says about the same job, beside each closed form."""
