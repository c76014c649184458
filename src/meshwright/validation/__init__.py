"""Published runs, and the score of what is predicted for them."""
