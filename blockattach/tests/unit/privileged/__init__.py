"""What runs with rights: what it refuses, and how it is reached."""
