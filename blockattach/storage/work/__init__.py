"""Every asynchronous act: what managers declare of it, and what runs and recovers it."""
