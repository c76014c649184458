"""Fit: the constants that only training runs can give, and what is predicted for a source that they do not rest on."""
