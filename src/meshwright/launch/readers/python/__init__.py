"""Python: configurations that are programs, of which nothing is run."""
