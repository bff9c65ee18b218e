"""Test cases of many hosts on one volume, sequentially and concurrently."""
from blockattach_tempest_plugin.cases import base

SEVERAL = ('one', 'two', 'three', 'four')
MANY = tuple(f'host-{number}' for number in range(16))


class Multiattach(base.Cases):
    """Cases of hosts that attach to and detach from a multiattach volume."""

    def joined(self, volume: str, hosts: tuple[str, ...] = SEVERAL) -> list[str]:
        """Attach hosts one after the other, and return the IDs of the attachments."""
        return [self.attach(volume, host) for host in hosts]

    def join_at_once(self, hosts: tuple[str, ...]) -> None:
        """Assert that all hosts can connect concurrently without a retry."""
        volume = self.shared_volume()
        answers = base.at_once(*(
            lambda host=host: self.api.create(volume, connector=base.connector(host))
            for host in hosts))
        self.assertEqual([200] * len(hosts), self.codes(answers))
        self.assertEqual(['attaching'] * len(hosts), self.states(volume))

    def test_volume_of_a_multiattach_type_shows_multiattach_true(self) -> None:
        self.assertIs(True, self.shown_volume(self.shared_volume())['multiattach'])

    def test_volume_of_another_type_shows_multiattach_false(self) -> None:
        self.assertIs(False, self.shown_volume(self.volume())['multiattach'])

    def test_second_host_attaches_a_volume_in_use(self) -> None:
        volume = self.shared_volume()
        self.joined(volume, ('one', 'two'))
        self.assertEqual(['attached', 'attached'], self.states(volume))

    def test_four_hosts_attach_one_after_another(self) -> None:
        volume = self.shared_volume()
        self.joined(volume)
        self.assertEqual(['attached'] * 4, self.states(volume))

    def test_volume_shows_the_attachments_of_all_hosts(self) -> None:
        volume = self.shared_volume()
        made = self.joined(volume)
        self.assertEqual(sorted(made), sorted(
            one['attachment_id'] for one in self.shown_volume(volume)['attachments']))

    def test_attachment_is_reserved_while_another_is_reserved(self) -> None:
        volume = self.shared_volume()
        self.reserve(volume)
        self.reserve(volume)
        self.assertEqual(['reserved', 'reserved'], self.states(volume))

    def test_host_connects_while_another_host_is_attaching(self) -> None:
        volume = self.shared_volume()
        self.connect(volume, 'one')
        self.connect(volume, 'two')
        self.assertEqual(['attaching', 'attaching'], self.states(volume))

    def test_host_attaches_while_the_volume_is_detaching(self) -> None:
        volume = self.shared_volume()
        self.joined(volume, ('one', 'two'))
        self.act(volume, 'os-begin_detaching')
        self.attach(volume, 'three')

    def test_two_hosts_connect_concurrently(self) -> None:
        self.join_at_once(SEVERAL[:2])

    def test_four_hosts_connect_concurrently(self) -> None:
        self.join_at_once(SEVERAL)

    def test_sixteen_hosts_connect_concurrently(self) -> None:
        self.join_at_once(MANY)

    def test_eight_attachments_are_reserved_concurrently(self) -> None:
        volume = self.shared_volume()
        answers = base.at_once(*[lambda: self.api.create(volume)] * 8)
        self.assertEqual([200] * 8, self.codes(answers))
        self.assertEqual(8, len({one.body['attachment']['id'] for one in answers}))

    def test_at_least_one_of_four_concurrent_connections_succeeds(self) -> None:
        volume = self.shared_volume()
        answers = base.at_once(*(
            lambda host=host: self.api.create(volume, connector=base.connector(host))
            for host in SEVERAL))
        # Cinder rejects a host with 400 while another host is reserving or connecting.
        self.assertIn(200, self.codes(answers))
        self.assertLessEqual(set(self.codes(answers)), {200, 400})
        self.assertEqual(self.codes(answers).count(200), len(self.attachments_of(volume)))

    def test_concurrent_completions_attach_all_hosts(self) -> None:
        volume = self.shared_volume()
        made = self.joined(volume)
        # The update makes each attachment attaching again. Cinder allows this for several hosts,
        # although it rejects a new host while another one is attaching.
        for attachment in made:
            self.answered(self.api.update(attachment, base.connector(attachment)))
        self.assertEqual([204] * 4, self.codes(base.at_once(*(
            lambda kept=attachment: self.api.complete(kept) for attachment in made))))
        self.assertEqual(['attached'] * 4, self.states(volume))
        self.has_status(volume, 'in-use')

    def test_four_attachments_are_deleted_concurrently(self) -> None:
        volume = self.shared_volume()
        made = self.joined(volume)
        self.assertEqual([200] * 4, self.codes(base.at_once(*(
            lambda kept=attachment: self.cloud.ender.delete(kept) for attachment in made))))
        self.assertEqual([], self.states(volume))
        self.has_status(volume, 'available')

    def test_volume_is_in_use_until_the_last_attachment_is_deleted(self) -> None:
        volume = self.shared_volume()
        made = self.joined(volume)
        for attachment in made[1:]:
            self.end(attachment)
            self.has_status(volume, 'in-use')
        self.end(made[0])
        self.has_status(volume, 'available')

    def test_deletion_of_one_attachment_keeps_the_others_attached(self) -> None:
        volume = self.shared_volume()
        made = self.joined(volume)
        self.end(made.pop(1))
        self.assertEqual(sorted(made), sorted(one['id'] for one in self.attachments_of(volume)))
        self.assertEqual(['attached'] * 3, self.states(volume))

    def test_host_attaches_the_same_volume_twice(self) -> None:
        volume = self.shared_volume()
        self.joined(volume, ('one', 'one'))
        self.assertEqual(['attached', 'attached'], self.states(volume))

    def test_deletion_of_the_first_attachment_of_a_host_keeps_the_second(self) -> None:
        volume = self.shared_volume()
        first, second = self.joined(volume, ('one', 'one'))
        self.end(first)
        self.assertIn('driver_volume_type', self.shown(second)['connection_info'])
        self.has_status(volume, 'in-use')

    def test_volume_is_reserved_twice_for_the_same_server(self) -> None:
        volume, server = self.shared_volume(), base.server()
        # Nova, not Block Storage, prevents a second attachment of a volume to the same server.
        self.reserve(volume, instance_uuid=server)
        self.reserve(volume, instance_uuid=server)
        self.assertEqual(['reserved', 'reserved'], self.states(volume))

    def test_concurrent_connection_and_deletion_both_succeed(self) -> None:
        volume = self.shared_volume()
        first = self.attach(volume, 'one')
        self.attach(volume, 'two')
        left, joined = base.at_once(
            lambda: self.cloud.ender.delete(first),
            lambda: self.api.create(volume, connector=base.connector('three')))
        self.answered(left, 200)
        self.answered(joined, 200)
        self.assertEqual(['attached', 'attaching'], self.states(volume))

    def test_connection_info_has_the_id_of_its_own_attachment(self) -> None:
        volume = self.shared_volume()
        for attachment in self.joined(volume):
            self.assertEqual(attachment,
                             self.shown(attachment)['connection_info']['attachment_id'])
