"""Schema revisions, applied in the order of their numbers. A released revision is never edited."""
