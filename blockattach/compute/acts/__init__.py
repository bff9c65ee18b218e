"""What is done with servers: acts as steps that can be undone, or that are done to their end."""
