"""Tests of the tool `web_request`."""
