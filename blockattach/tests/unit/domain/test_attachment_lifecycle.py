"""The one table of an attachment's lifecycle: every pair, and what follows from all of them."""
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
    """Every state that can be come to from one."""
    seen, new = set(), {start}
    while new:
        seen |= new
        new = {target for state in new for target in ways[state]} - seen
    return seen


def ways():
    """Where each state can lead, whatever a row remembers."""
    found = {state: set() for state in S}
    for state, event in pairs():
        for came_from in (None, *S):
            try:
                found[state].add(lifecycle.next_state(state, event, came_from))
            except errors.InvalidTransition:
                break
    return found


class TransitionTest(unittest.TestCase):

    def test_every_pair_leads_where_it_should_or_is_refused(self):
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

    def test_a_refusal_names_what_would_be_allowed(self):
        with self.assertRaises(errors.InvalidTransition) as caught:
            lifecycle.next_state(S.CONNECTED, E.RELEASE)
        self.assertEqual('complete, attach, connect, disconnect',
                         caught.exception.kwargs['allowed'])
        with self.assertRaises(errors.InvalidTransition) as caught:
            lifecycle.next_state(S.GONE, E.CONNECT)
        self.assertEqual('none', caught.exception.kwargs['allowed'])

    def test_no_pair_stands_twice_in_the_table(self):
        keys = [(row.source, row.event) for row in lifecycle.TRANSITIONS]
        self.assertEqual(sorted(set(keys)), sorted(keys))

    def test_allowed_events_are_those_that_lead_somewhere(self):
        for state in S:
            self.assertEqual({event for event in E if state in LEGAL[event]},
                             set(lifecycle.allowed_events(state)), state)

    def test_each_state_can_be_reached_from_a_birth(self):
        born = reachable(S.RESERVED, ways()) | reachable(S.CONNECTING, ways())
        self.assertEqual(set(S), born)
        self.assertEqual(set(S), reachable(S.RESERVED, ways()))

    def test_the_end_can_be_reached_from_each_state_by_the_callers_own_acts(self):
        for state in S:
            self.assertIn(S.GONE, reachable(state, ways()), state)
        for state in set(S) - {S.GONE}:
            self.assertTrue({E.DISCONNECT, E.RELEASE} & set(lifecycle.allowed_events(state)),
                            f'{state} cannot be deleted')

    def test_nothing_leads_out_of_the_end(self):
        self.assertEqual(set(), ways()[S.GONE])

    def test_what_the_service_is_at_work_on_is_ended_by_the_volume_service_alone(self):
        repeatable = {E.CONNECT, E.DISCONNECT}
        for row in lifecycle.TRANSITIONS:
            with self.subTest(row=row):
                of_volume = (row.source in lifecycle.TRANSITIONAL
                             and row.event not in repeatable)
                self.assertIs(lifecycle.Writer.VOLUME if of_volume else lifecycle.Writer.CONTROL,
                              row.writer)

    def test_each_transitional_state_can_be_finished_refused_and_given_up(self):
        for state in lifecycle.TRANSITIONAL:
            events = set(lifecycle.allowed_events(state))
            self.assertLessEqual({E.REFUSED, E.FAILED}, events, state)
            self.assertEqual(1, len(events & {E.CONNECTED, E.DISCONNECTED}), state)


class RememberedTest(unittest.TestCase):

    def test_only_transitional_states_remember(self):
        for state in S:
            for target in set(S) - lifecycle.TRANSITIONAL:
                self.assertIsNone(lifecycle.remembered(state, target, S.RESERVED))

    def test_the_state_before_is_remembered(self):
        for state in (S.RESERVED, S.CONNECTED, S.ATTACHED, S.ERROR_ATTACHING):
            self.assertIs(state, lifecycle.remembered(state, S.CONNECTING, None))
        for state in (S.CONNECTED, S.ATTACHED, S.ERROR_ATTACHING, S.ERROR_DETACHING):
            self.assertIs(state, lifecycle.remembered(state, S.DISCONNECTING, None))

    def test_entered_again_it_keeps_what_it_remembered(self):
        for state in lifecycle.TRANSITIONAL:
            for came_from in (None, S.RESERVED, S.ATTACHED):
                self.assertIs(came_from, lifecycle.remembered(state, state, came_from))

    def test_deleted_while_connecting_it_does_not_go_back_there(self):
        for came_from in (None, S.RESERVED, S.ATTACHED):
            self.assertIs(S.ERROR_DETACHING,
                          lifecycle.remembered(S.CONNECTING, S.DISCONNECTING, came_from))

    def test_no_chain_of_moves_comes_back_to_where_nobody_is_at_work(self):
        """Walk every (state, memory) there is: a refusal never leads into a transitional one."""
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

    def test_a_waiting_caller_gets_the_error_and_nothing_has_happened(self):
        for state in lifecycle.TRANSITIONAL:
            for came_from in (None, *S):
                self.assertIs(E.REFUSED, lifecycle.refusal(state, came_from, True))

    def test_where_nobody_waits_it_fails_unless_the_host_before_uses_it(self):
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
    """All that starts ends once."""

    def walk(self):
        """Every move of every history: what was begun before, and what is notified.

        A history begins with an insert that is notified (as a move from nowhere), or legacy.
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

    def test_nothing_starts_twice_and_only_what_has_started_ends(self):
        for state, event, target, begun, notified in self.walk():
            with self.subTest(state=state, event=event, target=target):
                for one in notified:
                    _, what, how = one.split('.')
                    self.assertEqual(how != 'start', what in begun, (begun, notified))
                    begun = self.after(begun, (one,))

    def test_nothing_is_under_way_but_where_the_table_says_so(self):
        for state, event, target, begun, notified in self.walk():
            with self.subTest(state=state, event=event, target=target):
                expected = {'attach'} if target in lifecycle.ATTACHING else (
                    {'detach'} if target is S.DISCONNECTING else set())
                self.assertEqual(expected, self.after(begun, notified))

    def test_it_ends_well_only_where_it_did(self):
        for state, event, target, _, notified in self.walk():
            with self.subTest(state=state, event=event, target=target):
                self.assertEqual(target is S.ATTACHED and (event in (E.COMPLETE, E.ATTACH, None)
                                                           and state is not S.ATTACHED),
                                 T.ATTACH_END in notified)
                self.assertEqual(event in (E.DISCONNECTED, E.RELEASE), T.DETACH_END in notified)

    def test_whole_histories(self):
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

    def test_each_live_state_has_a_rank_and_the_volume_a_word_for_it(self):
        self.assertEqual(set(lifecycle.LIVE), set(lifecycle.RANKS))
        self.assertNotIn(S.GONE, lifecycle.RANKS)
        words = volume_lifecycle.RANK_STATUSES
        self.assertEqual({None, *lifecycle.RANKS.values()}, set(words))
        for state, rank in lifecycle.RANKS.items():
            if not state.startswith('error_'):
                self.assertEqual(lifecycle.WIRE_STATUS[state], words[rank].attach_status, state)

    def test_ranks_are_in_the_order_of_the_wire(self):
        self.assertEqual(
            ['attached', 'attaching', 'detaching', 'reserved', 'reserved'],
            [volume_lifecycle.RANK_STATUSES[rank].attach_status for rank in range(1, 6)])

    def test_states_on_wire_is_the_way_back(self):
        for state in lifecycle.LIVE:
            self.assertIn(state, lifecycle.states_on_wire(lifecycle.WIRE_STATUS[state]))
        self.assertEqual((S.CONNECTING, S.CONNECTED), lifecycle.states_on_wire('attaching'))
        self.assertEqual((), lifecycle.states_on_wire('detached'))
        self.assertEqual((), lifecycle.states_on_wire('no such word'))

    def test_which_states_are_granted(self):
        self.assertEqual({S.CONNECTING, S.CONNECTED, S.ATTACHED}, lifecycle.GRANTED)
