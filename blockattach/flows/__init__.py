"""TaskFlow in one place: work of several steps that is undone when a later one fails."""
