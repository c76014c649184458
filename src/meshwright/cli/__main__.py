"""`python -m meshwright.cli`."""

from __future__ import annotations

from meshwright.cli import main

if __name__ == "__main__":  # processes that start as copies of this one read this file again
    main()
