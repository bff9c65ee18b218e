"""Attachments: what is read to judge, what is written, what the target should hold."""
