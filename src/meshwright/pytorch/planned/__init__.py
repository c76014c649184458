"""What the planner says, in the terms of what is observed."""
