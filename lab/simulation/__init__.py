"""The whole service in one process under a virtual clock: every run is replayed from its seed.

API, control, scheduler and volume managers are the real ones, put together by the real wiring.
What is played lies below their seams: the clock, threads and waits (`threads`), the bus (`bus`),
the database's engine and its faults (`rows`), the storage (`storage`). Each request and each
handler is a thread that runs only while it holds the baton (`baton`); the seed says which one is
next.
"""
