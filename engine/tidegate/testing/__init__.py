"""Peers that misbehave on purpose, for tests of the engine and of whatever is built on it.

    tidegate.testing.origin     an HTTP/1.1 origin that can hurt a client in every known way, chosen by path
    tidegate.testing.dns        a DNS server that answers as its zone tells: rebinding, delays, black holes

Both run in-process on trio and as programs (`python -m tidegate.testing.origin`). Import them from their own
modules: a re-export here would import them a second time when they run as programs.
"""
