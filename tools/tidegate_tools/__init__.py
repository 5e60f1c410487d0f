"""Agent tools on top of the tidegate engine."""
