"""What the engine survives: thousands of peers that never end, beside others' clients. See README.md."""
