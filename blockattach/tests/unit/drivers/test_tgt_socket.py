"""Client of the tgtd socket: parsing of answers, and values that must not be sent."""
import os
import socket
import struct
import tempfile
import threading
import unittest

from blockattach.storage.drivers.targets import tgt_socket

_SHOWN = """Target 7: iqn.2010-10.org.openstack:volume-a
    System information:
        Driver: iscsi
        State: ready
    I_T nexus information:
        I_T nexus: 3
            Initiator: iqn.x:host alias: a host
            Connection: 0
                IP Address: 127.0.0.1
            Connection: 2
                IP Address: 127.0.0.1
        I_T nexus: 4
            Initiator: iqn.x:host alias: none
            Connection: 1
                IP Address: ::1
    LUN information:
        LUN: 0
            Type: controller
            SCSI ID: IET     00070000
            SCSI SN: beaf70
            Size: 0 MB, Block size: 1
            Readonly: No
            Thin-provisioning: No
            Backing store path: None
            Backing store flags:
        LUN: 1
            Type: disk
            SCSI ID: IET     00070001
            SCSI SN: 0123456789abcdef
            Size: 1074 MB, Block size: 512
            Readonly: Yes
            Thin-provisioning: Yes
            Backing store path: /srv/volumes of ours/volume-a
            Backing store flags:
    Account information:
        user
    ACL information:
        iqn.x:host
Target 9: iqn.2010-10.org.openstack:bare
    System information:
        Driver: iscsi
        State: offline
    I_T nexus information:
    LUN information:
    Account information:
    ACL information:
"""


class ParseTest(unittest.TestCase):
    def test_parse_target(self) -> None:
        found, _ = tgt_socket.parse_targets(_SHOWN)
        self.assertEqual(tgt_socket.Target(
            tid=7, name='iqn.2010-10.org.openstack:volume-a', ready=True,
            initiators=('iqn.x:host',), accounts=('user',),
            luns=(tgt_socket.Lun(1, True, True, 1074, '0123456789abcdef',
                                 '/srv/volumes of ours/volume-a'),),
            sessions=(tgt_socket.Session(3, 'iqn.x:host'),
                      tgt_socket.Session(4, 'iqn.x:host'))), found)

    def test_parse_target_without_luns(self) -> None:
        _, found = tgt_socket.parse_targets(_SHOWN)
        self.assertEqual(tgt_socket.Target(9, 'iqn.2010-10.org.openstack:bare', False,
                                           (), (), (), ()), found)

    def test_parse_no_targets(self) -> None:
        self.assertEqual((), tgt_socket.parse_targets(''))


class ClientTest(unittest.TestCase):
    """Client against a socket with a prepared answer."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, 'socket.1')
        self.server = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.server.close)
        self.heard = b''

    def answer(self, answer: bytes, hang: bool = False,
               timeout: float = 60.0) -> tgt_socket.Client:
        """Answer one request on the socket, and return a client for it."""
        self.server.bind(self.path)
        self.server.listen(1)
        done = threading.Event()

        def serve() -> None:
            connected, _ = self.server.accept()
            with connected:
                self.heard = connected.recv(65536)
                connected.sendall(answer)
                if hang:
                    done.wait()

        thread = threading.Thread(target=serve)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(done.set)
        return tgt_socket.Client(self.path, timeout=timeout)

    def test_request_layout(self) -> None:
        client = self.answer(struct.pack('=II', 0, 8))
        client.add_account('user', 'secret')
        self.assertEqual(120 + len(b'user=user,password=secret\0'), len(self.heard))
        self.assertEqual((7, 0, b'iscsi', len(self.heard)),
                         struct.unpack_from('=II5s59xI', self.heard))
        self.assertTrue(self.heard.endswith(b'user=user,password=secret\0'))

    def test_rejection_has_code_without_secret(self) -> None:
        client = self.answer(struct.pack('=II', tgt_socket.Code.USER_EXISTS, 8))
        with self.assertRaises(tgt_socket.Rejected) as caught:
            client.add_account('user', 'secret')
        self.assertEqual(tgt_socket.Code.USER_EXISTS, caught.exception.answer)
        self.assertNotIn('secret', str(caught.exception))

    def test_truncated_answer_raises_unanswered(self) -> None:
        for answer in (b'', struct.pack('=I', 0), struct.pack('=II', 0, 80) + b'Portal'):
            with self.subTest(answer=answer):
                self.setUp()
                with self.assertRaises(tgt_socket.Unanswered):
                    self.answer(answer).portals()

    def test_silent_tgtd_raises_unanswered(self) -> None:
        with self.assertRaises(tgt_socket.Unanswered):
            self.answer(b'', hang=True, timeout=0.2).portals()

    def test_missing_tgtd_raises_unanswered(self) -> None:
        with self.assertRaises(tgt_socket.Unanswered):
            tgt_socket.Client(self.path).portals()

    def test_silent_tgtd_with_full_backlog_has_process(self) -> None:
        self.server.bind(self.path)
        self.server.listen(0)
        client = tgt_socket.Client(self.path, timeout=0.1)
        # The first waits for an answer, the next ones to be heard at all.
        for _ in range(3):
            self.assertFalse(client.answers())
            self.assertTrue(client.has_process())

    def test_dead_tgtd_has_no_process(self) -> None:
        client = tgt_socket.Client(self.path)
        self.assertFalse(client.has_process())
        self.server.bind(self.path)
        self.server.listen(1)
        self.server.close()
        self.assertTrue(os.path.exists(self.path))
        self.assertFalse(client.has_process())

    def test_answering_tgtd_has_process(self) -> None:
        self.assertTrue(self.answer(struct.pack('=II', 0, 8)).has_process())

    def test_value_that_tgtd_would_split_rejected(self) -> None:
        client = tgt_socket.Client(self.path)
        for value in ('a,b', 'a\0b', 'a\nb', ''):
            with self.assertRaises(tgt_socket.Rejected):
                client.bind_initiator(1, value)
            with self.assertRaises(tgt_socket.Rejected):
                client.add_lun(1, 1, value)
