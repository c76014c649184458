"""What Python is asked, a module for each question, and the record of its answer, with tables, JSON and rows."""
