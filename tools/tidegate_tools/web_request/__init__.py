"""The agent tool `web_request`: configuration, merge, secrets, and the tool itself."""
