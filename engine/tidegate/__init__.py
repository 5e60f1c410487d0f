"""tidegate: outbound HTTP that an agent can be trusted with."""
