"""Sections: the parts of the memo, each written from its figures."""
