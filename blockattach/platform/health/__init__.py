"""Health of a process: checked periodically, reported over HTTP and in a file."""
