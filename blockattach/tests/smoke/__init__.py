"""Few tests with real processes and real servers, of the state in which everything ends.

None says anything of the order in time or of how long something takes: what they wait for is
waited for by `blockattach.tests.fixtures.waiting`. What explores is in `blockattach.tests.system`.
"""
