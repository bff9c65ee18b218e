"""Cloud for development. Run by `tools/devcloud`."""
