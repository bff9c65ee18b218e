"""Units of tests and simulations that the gate leaves out. Run by `tools/explore`."""
