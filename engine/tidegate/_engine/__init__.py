"""One fetch: admit, hops, deadline."""
