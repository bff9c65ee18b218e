"""Asynchronous work: operations on volumes and snapshots that continue after the API response.

The modules declare, execute and recover such operations. Each operation is a row of the table
``work``, called a work item.
"""
