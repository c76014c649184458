"""The score: what was measured beside what is predicted, in figures, tables and pictures."""
