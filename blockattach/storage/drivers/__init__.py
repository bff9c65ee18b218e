"""Drivers of backends: stores keep the data of volumes, targets export them.

Drivers use neither the database nor the message bus.
"""
