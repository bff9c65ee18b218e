"""The keys of a site in a file: one a line, ``NAME SECRET [INTERFACE ...]``.

The first is the one that this process sends with; all are accepted, each for the interfaces that
it names, or for all. So a key is replaced without a pause: the new one is added at the end
everywhere, then put first everywhere, then the old one is removed. Processes notice each change.
"""
import secrets
from collections.abc import Mapping

from blockattach.platform import errors
from blockattach.platform.conf import changing
from blockattach.platform.conf import permissions
from blockattach.platform.rpc.http import trust
from blockattach.platform.secrets import key_file

_COMMENT = '#'
_FIRST, _BYTES = 'site', 32


class KeyFile:
    """`trust.Keys`, as the file is now."""

    def __init__(self, path: str, topic_prefix: str) -> None:
        """Read it; the first start makes it, readable by its owner only.

        :raises ConfigurationError: it cannot be made or read, is open to others, or holds no key
        """
        self._prefix = topic_prefix
        try:
            key_file.make(path, _new_key)
            permissions.check_private(path)
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot use {path}: {exc.strerror or exc}') from exc
        self._file = changing.ChangingFile(path, self._parse)

    def wrong(self) -> str | None:
        """Return the reason why the file cannot be read, or None if it can."""
        return self._file.wrong()

    @property
    def own(self) -> trust.Key:
        """What this process sends with."""
        return next(iter(self.accepted.values()))

    @property
    def accepted(self) -> Mapping[str, trust.Key]:
        """By name."""
        return self._file.said()

    def _parse(self, text: str) -> Mapping[str, trust.Key]:
        keys = {}
        for number, line in enumerate(text.splitlines(), 1):
            name, *parts = line.partition(_COMMENT)[0].split() or ('',)
            if not name:
                continue
            try:
                key = trust.Key(name, bytes.fromhex(parts[0]) if parts else b'', frozenset(
                    f'{self._prefix}-{each}' for each in parts[1:]) or None)
            except ValueError:
                # Its text may have a part of the secret.
                key = None
            if key is None or name in keys:
                raise errors.ConfigurationError(
                    reason=f'line {number} is not NAME SECRET [INTERFACE ...] with a unique NAME '
                           f'and a SECRET of at least 64 hexadecimal digits')
            keys[name] = key
        if not keys:
            raise errors.ConfigurationError(reason='the file contains no key')
        return keys



def _new_key() -> bytes:
    return f'{_FIRST} {secrets.token_hex(_BYTES)}'.encode()
