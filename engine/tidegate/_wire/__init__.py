"""Bytes and sockets: trio, h11, ssl. Imports values only and decides nothing."""
