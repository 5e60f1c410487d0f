"""The clients, each as its own documentation has it used. A module each, so that one never loads another.

All verify certificates and names, keep connections as long as the server does, and leave the garbage
collector alone. Limits that would close kept connections in a burst of 64 are raised.
"""
