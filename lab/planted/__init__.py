"""Bugs that are planted in copies of the package, to prove that tests detect them."""
