"""Asynchronous work: its declaration by managers, its execution, and its recovery."""
