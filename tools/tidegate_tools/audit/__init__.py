"""What to make of an audit log: the host list it asks for, and a page that shows what went on.

A log holds names that strangers chose. Nothing in here trusts a line of it.
"""
