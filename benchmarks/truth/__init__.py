"""Predicted against measured step time and memory of published runs; nothing is tuned to them."""
