"""Backends: a store keeps bytes, a target exports them. They use no database and no bus."""
