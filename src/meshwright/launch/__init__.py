"""Launch: what a launch must set beside the plan, as each framework spells it; data by framework and release."""
