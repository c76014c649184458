"""`python -m meshwright.cli`."""

from meshwright.cli import main

main()
