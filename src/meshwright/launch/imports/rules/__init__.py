"""Rules: what a framework refuses of the settings of a launch file, with the lines that break it."""
