"""The object graph: one builder a module. Nothing here decides; it only puts together."""
