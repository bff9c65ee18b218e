"""Simulation of the whole service in one process under a virtual clock, replayable from a seed.

The simulation runs the real API, control, scheduler and volume managers, assembled by the real
wiring. It replaces only the layers below: the clock, threads and waits (`threads`), the bus
(`bus`), the engine of the database and its faults (`rows`), and the storage (`storage`). Each
request and each message handler is a thread that runs only while it holds the baton (`baton`). The
seed determines which thread gets the baton next.
"""
