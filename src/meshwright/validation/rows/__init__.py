"""Rows of measured runs: read from a table, completed where they are blank, and turned into a plan and its inputs."""
