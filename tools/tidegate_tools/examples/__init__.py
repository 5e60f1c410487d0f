"""Small complete programs on top of the tools. The tests run them."""
