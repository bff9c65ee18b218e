"""Admission control: limits on concurrent requests. Requests above a limit wait or are shed."""
