"""Files: which text is meant where a file names others or holds several, and where in it something stands."""
