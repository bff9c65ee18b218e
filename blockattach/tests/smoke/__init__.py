"""Few tests with real processes and real servers, of the state in which everything ends.

The tests check no order of events and no duration. They wait for conditions with
`blockattach.tests.fixtures.polling`. Tests of clouds under load and faults are in `lab.system`.
"""
