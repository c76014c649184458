"""Documents: an answer as blocks, and the writers that put them into Markdown, one HTML page, or PDF."""
