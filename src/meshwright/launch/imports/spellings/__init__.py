"""Spellings: what settings of several frameworks mean alike, for the dialects that share them."""
