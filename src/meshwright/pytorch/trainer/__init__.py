"""A trainer in the form of torchtitan, built from torch.distributed; runs in a process of its own."""
