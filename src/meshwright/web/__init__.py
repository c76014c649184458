"""The page: questions from a form, answers as HTML that streams in, each search in a process of its own."""
