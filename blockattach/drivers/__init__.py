"""Backends: a store keeps bytes, a target lets initiators in. They know no database and no bus."""
