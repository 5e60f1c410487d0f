"""Peers that do what a test tells them to, for tests of the engine and of whatever is built on it.

    tidegate.testing.memory     a connector whose peers are functions in the test: no network, a fake clock
    tidegate.testing.origin     an HTTP/1.1 origin that can hurt a client in every known way, chosen by path
    tidegate.testing.dns        a DNS server that answers as its zone tells: rebinding, delays, black holes

The last two are also programs (`python -m tidegate.testing.origin`). Import each from its own module: with a
re-export here, the extra of the DNS server would be needed for all, and that would be imported a second time
when it runs as a program.
"""
