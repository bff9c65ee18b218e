"""How bytes are reached."""
