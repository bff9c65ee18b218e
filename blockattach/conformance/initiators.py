"""Part of the conformance kit on initiators: cases of their names, and sharing a volume."""
import dataclasses
import secrets

from blockattach.conformance import target_base
from blockattach.platform import errors
from blockattach.storage.domain import connection


def in_capitals(grant: connection.Grant) -> connection.Grant:
    """Return a grant of a host that also sends its name in another case."""
    prefix, _, name = grant.initiator.partition(':')
    return dataclasses.replace(grant, spellings=frozenset({f'{prefix}:{name.upper()}'}))


class InitiatorContract(target_base.TargetBase):
    """Behaviours of a target regarding initiator names."""

    def test_initiator_sent_in_another_case_has_one_grant(self) -> None:
        export = self.an_export()
        plain = self.a_grant(export)
        grant = in_capitals(plain)
        for one in (plain, grant, grant):
            made = self.target.grant(export, one)
        self.assertEqual(made, self.target.grant(export, plain))
        [found] = [found for found in self.target.exports()
                   if found.volume_id == export.volume_id]
        self.assertEqual([plain.initiator], [one.initiator for one in found.grants])
        self.assertEqual((set(), set()), connection.difference([grant], found.grants))
        self.target.revoke(export.volume_id, plain.initiator)
        self.assertEqual({}, self.granted(export))

    def test_second_initiator_is_admitted_or_refused_as_the_target_says(self) -> None:
        export = self.an_export()
        first = self.a_grant(export)
        second = dataclasses.replace(
            first, alias='-00000001', initiator='iqn.2026-01.org.example:second',
            credential=connection.Credential(f'user{secrets.token_hex(8)}', secrets.token_hex(8)))
        self.target.grant(export, first)
        if not self.target.multiattach:
            with self.assertRaises(errors.BackendRefused):
                self.target.grant(export, second)
            self.assertEqual({first.initiator: first.mode}, self.granted(export))
            self.target.revoke(export.volume_id, first.initiator)
        self.target.grant(export, second)
        expected = (first, second) if self.target.multiattach else (second,)
        self.assertEqual({one.initiator: one.mode for one in expected}, self.granted(export))
