"""Kits that prove a driver keeps its contract: subclass, return a fresh driver, run."""
