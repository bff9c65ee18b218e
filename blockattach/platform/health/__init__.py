"""Health of a process: checked periodically, and reported over HTTP and in a file."""
