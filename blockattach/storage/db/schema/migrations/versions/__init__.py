"""The revisions, in the order of their numbers. One that has been released is never edited."""
