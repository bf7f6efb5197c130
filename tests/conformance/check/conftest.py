"""Modules that tests hand to the suite as somebody's code are not for pytest to import: one ends its process, one lacks what it needs."""

collect_ignore = ["leaving.py", "needing.py"]
