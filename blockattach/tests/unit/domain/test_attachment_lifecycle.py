"""Transition table of the attachment lifecycle."""
import unittest

from blockattach.storage import errors
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import volume_lifecycle

S = lifecycle.State
E = lifecycle.Event
T = lifecycle.Notification

# Once more by hand, and from the other side: by event. Every pair that is not here is refused.
# BACK: to where the row came from.
BACK = 'back'
LEGAL = {
    E.CONNECT: {S.RESERVED: S.CONNECTING, S.CONNECTED: S.CONNECTING, S.ATTACHED: S.CONNECTING,
                S.CONNECTING: S.CONNECTING, S.ERROR_ATTACHING: S.CONNECTING},
    E.CONNECTED: {S.CONNECTING: S.CONNECTED},
    E.COMPLETE: {S.RESERVED: S.ATTACHED, S.CONNECTED: S.ATTACHED, S.ATTACHED: S.ATTACHED},
    E.ATTACH: {S.RESERVED: S.ATTACHED, S.CONNECTED: S.ATTACHED},
    E.DISCONNECT: {S.CONNECTING: S.DISCONNECTING, S.CONNECTED: S.DISCONNECTING,
                   S.ATTACHED: S.DISCONNECTING, S.DISCONNECTING: S.DISCONNECTING,
                   S.ERROR_ATTACHING: S.DISCONNECTING, S.ERROR_DETACHING: S.DISCONNECTING},
    E.DISCONNECTED: {S.DISCONNECTING: S.GONE},
    E.RELEASE: {S.RESERVED: S.GONE, S.ATTACHED: S.GONE},
    E.REFUSED: {S.CONNECTING: BACK, S.DISCONNECTING: BACK},
    E.FAILED: {S.CONNECTING: S.ERROR_ATTACHING, S.DISCONNECTING: S.ERROR_DETACHING},
}


def pairs():
    return [(state, event) for state in S for event in E]


def reachable(start, ways):
    """Return each state that is reachable from a state."""
    seen, new = set(), {start}
    while new:
        seen |= new
        new = {target for state in new for target in ways[state]} - seen
    return seen


def ways():
    """Return the successors of each state, for any remembered state."""
    found = {state: set() for state in S}
    for state, event in pairs():
        for came_from in (None, *S):
            try:
                found[state].add(lifecycle.next_state(state, event, came_from))
            except errors.InvalidTransition:
                break
    return found


class TransitionTest(unittest.TestCase):

    def test_each_transition_leads_to_expected_state(self):
        for state, event in pairs():
            expected = LEGAL[event].get(state)
            with self.subTest(state=state, event=event):
                if expected is None:
                    with self.assertRaises(errors.InvalidTransition) as caught:
                        lifecycle.next_state(state, event, S.ATTACHED)
                    self.assertEqual((state.value, event.value),
                                     (caught.exception.kwargs['state'],
                                      caught.exception.kwargs['event']))
                elif expected == BACK:
                    for came_from in S:
                        self.assertIs(came_from, lifecycle.next_state(state, event, came_from))
                    self.assertIs(S.GONE, lifecycle.next_state(state, event, None))
                else:
                    self.assertIs(expected, lifecycle.next_state(state, event))

    def test_invalid_transition_names_allowed_events(self):
        with self.assertRaises(errors.InvalidTransition) as caught:
            lifecycle.next_state(S.CONNECTED, E.RELEASE)
        self.assertEqual('complete, attach, connect, disconnect',
                         caught.exception.kwargs['allowed'])
        with self.assertRaises(errors.InvalidTransition) as caught:
            lifecycle.next_state(S.GONE, E.CONNECT)
        self.assertEqual('none', caught.exception.kwargs['allowed'])

    def test_transitions_unique(self):
        keys = [(row.source, row.event) for row in lifecycle.TRANSITIONS]
        self.assertEqual(sorted(set(keys)), sorted(keys))

    def test_allowed_events_match_transitions(self):
        for state in S:
            self.assertEqual({event for event in E if state in LEGAL[event]},
                             set(lifecycle.allowed_events(state)), state)

    def test_each_state_reachable_from_initial_state(self):
        born = reachable(S.RESERVED, ways()) | reachable(S.CONNECTING, ways())
        self.assertEqual(set(S), born)
        self.assertEqual(set(S), reachable(S.RESERVED, ways()))

    def test_each_state_deletable_by_caller(self):
        for state in S:
            self.assertIn(S.GONE, reachable(state, ways()), state)
        for state in set(S) - {S.GONE}:
            self.assertTrue({E.DISCONNECT, E.RELEASE} & set(lifecycle.allowed_events(state)),
                            f'{state} cannot be deleted')

    def test_gone_has_no_successor(self):
        self.assertEqual(set(), ways()[S.GONE])

    def test_transitional_state_ended_by_volume_service_only(self):
        repeatable = {E.CONNECT, E.DISCONNECT}
        for row in lifecycle.TRANSITIONS:
            with self.subTest(row=row):
                of_volume = (row.source in lifecycle.TRANSITIONAL
                             and row.event not in repeatable)
                self.assertIs(lifecycle.Writer.VOLUME if of_volume else lifecycle.Writer.CONTROL,
                              row.writer)

    def test_transitional_state_can_finish_be_refused_and_fail(self):
        for state in lifecycle.TRANSITIONAL:
            events = set(lifecycle.allowed_events(state))
            self.assertLessEqual({E.REFUSED, E.FAILED}, events, state)
            self.assertEqual(1, len(events & {E.CONNECTED, E.DISCONNECTED}), state)


class RememberedTest(unittest.TestCase):

    def test_non_transitional_state_remembers_nothing(self):
        for state in S:
            for target in set(S) - lifecycle.TRANSITIONAL:
                self.assertIsNone(lifecycle.remembered(state, target, S.RESERVED))

    def test_transitional_state_remembers_previous_state(self):
        for state in (S.RESERVED, S.CONNECTED, S.ATTACHED, S.ERROR_ATTACHING):
            self.assertIs(state, lifecycle.remembered(state, S.CONNECTING, None))
        for state in (S.CONNECTED, S.ATTACHED, S.ERROR_ATTACHING, S.ERROR_DETACHING):
            self.assertIs(state, lifecycle.remembered(state, S.DISCONNECTING, None))

    def test_reentered_transitional_state_keeps_remembered_state(self):
        for state in lifecycle.TRANSITIONAL:
            for came_from in (None, S.RESERVED, S.ATTACHED):
                self.assertIs(came_from, lifecycle.remembered(state, state, came_from))

    def test_delete_while_connecting_remembers_error_detaching(self):
        for came_from in (None, S.RESERVED, S.ATTACHED):
            self.assertIs(S.ERROR_DETACHING,
                          lifecycle.remembered(S.CONNECTING, S.DISCONNECTING, came_from))

    def test_refusal_never_leads_to_transitional_state(self):
        """Walk each reachable pair of state and remembered state."""
        seen, new = set(), {(S.RESERVED, None), (S.CONNECTING, None)}
        while new:
            seen |= new
            new = {found for pair in new for found in self._after(*pair)} - seen
        for state, came_from in seen:
            self.assertNotIn(came_from, lifecycle.TRANSITIONAL, (state, came_from))
            if state is S.DISCONNECTING:
                self.assertIsNotNone(came_from, 'refused, it would be gone with its host granted')

    def _after(self, state, came_from):
        for event in lifecycle.allowed_events(state):
            target = lifecycle.next_state(state, event, came_from)
            yield target, lifecycle.remembered(state, target, came_from)


class RefusalTest(unittest.TestCase):

    def test_refusal_to_waiting_caller_restores_state(self):
        for state in lifecycle.TRANSITIONAL:
            for came_from in (None, *S):
                self.assertIs(E.REFUSED, lifecycle.refusal(state, came_from, True))

    def test_refusal_without_caller_fails_unless_old_host_connected(self):
        # by what a row remembers: the state that a refusal leads to
        for state, came_from, expected in (
                (S.CONNECTING, S.RESERVED, S.ERROR_ATTACHING),
                (S.CONNECTING, S.ERROR_ATTACHING, S.ERROR_ATTACHING),
                (S.CONNECTING, S.CONNECTED, S.CONNECTED),
                (S.CONNECTING, S.ATTACHED, S.ATTACHED),
                (S.DISCONNECTING, S.CONNECTED, S.ERROR_DETACHING),
                (S.DISCONNECTING, S.ATTACHED, S.ERROR_DETACHING),
                (S.DISCONNECTING, S.ERROR_ATTACHING, S.ERROR_DETACHING),
                (S.DISCONNECTING, S.ERROR_DETACHING, S.ERROR_DETACHING)):
            with self.subTest(state=state, came_from=came_from):
                event = lifecycle.refusal(state, came_from, False)
                self.assertIs(expected, lifecycle.next_state(state, event, came_from))


class NotificationsTest(unittest.TestCase):
    """Notifications of each transition."""

    def walk(self):
        """Yield each transition of each history with the open starts and its notifications.

        A history starts with an insert that is notified as a transition from None, or with a
        legacy reservation.
        """
        histories = [(S.RESERVED, None, frozenset(), True), (S.CONNECTED, None, frozenset(), True)]
        for born in (S.RESERVED, S.CONNECTING, S.ATTACHED):
            notified = lifecycle.notifications_of(None, born)
            yield None, None, born, frozenset(), notified
            histories.append((born, None, self.after(frozenset(), notified), False))
        seen = set()
        while histories:
            history = histories.pop()
            if history in seen:
                continue
            seen.add(history)
            state, memory, begun, legacy = history
            for event in lifecycle.allowed_events(state):
                if legacy and event is not E.ATTACH:
                    continue
                target = lifecycle.next_state(state, event, memory)
                notified = lifecycle.notifications_of(None if legacy else state, target)
                yield state, event, target, begun, notified
                histories.append((target, lifecycle.remembered(state, target, memory),
                                  self.after(begun, notified), False))

    def after(self, begun, notified):
        for one in notified:
            _, what, how = one.split('.')
            begun = begun | {what} if how == 'start' else begun - {what}
        return begun

    def test_notified_start_and_end_alternate(self):
        for state, event, target, begun, notified in self.walk():
            with self.subTest(state=state, event=event, target=target):
                for one in notified:
                    _, what, how = one.split('.')
                    self.assertEqual(how != 'start', what in begun, (begun, notified))
                    begun = self.after(begun, (one,))

    def test_open_start_matches_state(self):
        for state, event, target, begun, notified in self.walk():
            with self.subTest(state=state, event=event, target=target):
                expected = {'attach'} if target in lifecycle.ATTACHING else (
                    {'detach'} if target is S.DISCONNECTING else set())
                self.assertEqual(expected, self.after(begun, notified))

    def test_end_notified_only_on_success(self):
        for state, event, target, _, notified in self.walk():
            with self.subTest(state=state, event=event, target=target):
                self.assertEqual(target is S.ATTACHED and (event in (E.COMPLETE, E.ATTACH, None)
                                                           and state is not S.ATTACHED),
                                 T.ATTACH_END in notified)
                self.assertEqual(event in (E.DISCONNECTED, E.RELEASE), T.DETACH_END in notified)

    def test_notifications_of_histories(self):
        for states, expected in (
                ((None, S.RESERVED, S.CONNECTING, S.CONNECTED, S.ATTACHED, S.DISCONNECTING,
                  S.GONE), (T.ATTACH_START, T.ATTACH_END, T.DETACH_START, T.DETACH_END)),
                ((None, S.RESERVED, S.GONE), (T.DETACH_START, T.DETACH_END)),
                ((None, S.CONNECTING, S.GONE), (T.ATTACH_START, T.ATTACH_ERROR)),
                ((None, S.ATTACHED, S.ATTACHED, S.GONE),
                 (T.ATTACH_START, T.ATTACH_END, T.DETACH_START, T.DETACH_END)),
                ((None, S.CONNECTING, S.DISCONNECTING, S.GONE),
                 (T.ATTACH_START, T.ATTACH_ERROR, T.DETACH_START, T.DETACH_END)),
                ((S.ATTACHED, S.CONNECTING, S.ATTACHED), (T.ATTACH_START, T.ATTACH_ERROR)),
                ((S.ATTACHED, S.DISCONNECTING, S.DISCONNECTING, S.ATTACHED),
                 (T.DETACH_START, T.DETACH_ERROR))):
            with self.subTest(states=states):
                self.assertEqual(expected, tuple(
                    one for before, after in zip(states, states[1:], strict=False)
                    for one in lifecycle.notifications_of(before, after)))


class WordsTest(unittest.TestCase):

    def test_each_live_state_has_rank_and_volume_status(self):
        self.assertEqual(set(lifecycle.LIVE), set(lifecycle.RANKS))
        self.assertNotIn(S.GONE, lifecycle.RANKS)
        words = volume_lifecycle.RANK_STATUSES
        self.assertEqual({None, *lifecycle.RANKS.values()}, set(words))
        for state, rank in lifecycle.RANKS.items():
            if not state.startswith('error_'):
                self.assertEqual(lifecycle.WIRE_STATUS[state], words[rank].attach_status, state)

    def test_ranks_ordered_by_attach_status(self):
        self.assertEqual(
            ['attached', 'attaching', 'detaching', 'reserved', 'reserved'],
            [volume_lifecycle.RANK_STATUSES[rank].attach_status for rank in range(1, 6)])

    def test_states_on_wire_inverts_wire_status(self):
        for state in lifecycle.LIVE:
            self.assertIn(state, lifecycle.states_on_wire(lifecycle.WIRE_STATUS[state]))
        self.assertEqual((S.CONNECTING, S.CONNECTED), lifecycle.states_on_wire('attaching'))
        self.assertEqual((), lifecycle.states_on_wire('detached'))
        self.assertEqual((), lifecycle.states_on_wire('no such word'))

    def test_granted_states(self):
        self.assertEqual({S.CONNECTING, S.CONNECTED, S.ATTACHED}, lifecycle.GRANTED)
