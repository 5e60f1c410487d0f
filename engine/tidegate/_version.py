"""The one place of the version: reading package metadata costs more than the rest of the import."""

__version__ = "0.1.0"
