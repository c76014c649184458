"""Pictures: SVG drawn by hand, the same for the same figures."""
