"""Whether a process can do its work: looked at all the time, told over HTTP and by a file."""
