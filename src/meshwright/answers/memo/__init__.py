"""Memo: the recommendation that a team reads before it spends a cluster."""
