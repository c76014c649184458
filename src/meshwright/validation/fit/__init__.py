"""Fit: the constants that only training runs can give, and predictions for sources that they do not rest on."""
