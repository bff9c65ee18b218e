"""Drivers of backends. Stores keep the data of volumes, and targets export volumes to hosts.

Drivers use neither the database nor the message bus.
"""
