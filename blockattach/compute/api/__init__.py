"""The compute API: servers and their volumes, as Nova's clients ask for them."""
