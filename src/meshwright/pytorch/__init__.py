"""Verify plans on PyTorch; only `trainer` imports torch, in a process of its own."""
