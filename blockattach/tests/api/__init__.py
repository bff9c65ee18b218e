"""HTTP stories: what a client sends and sees, on a real database and the whole API."""
