"""The unmodified engine in a network of its own; `network.py` says how to use it."""
