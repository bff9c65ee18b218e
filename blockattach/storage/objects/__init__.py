"""Carriers: versioned objects that cross a process boundary. Data only."""
