"""Who may begin: how much a process works on at once, and where the rest waits for its turn."""
