"""Keys of a site in a file with lines ``NAME SECRET [INTERFACE ...]``.

A process sends with the first key and accepts all keys. A key is valid for the interfaces of its
line, or for all interfaces if the line has none. Keys can therefore be replaced without an
interruption. First the new key is added as the last line on all hosts. Then it becomes the first
line on all hosts. Then the old key is removed. Processes notice each change of the file.
"""
import secrets
from collections.abc import Mapping

from blockattach.platform import errors
from blockattach.platform.conf import changing
from blockattach.platform.conf import locations
from blockattach.platform.rpc.http import trust
from blockattach.platform.secrets import key_file

_COMMENT = '#'
_FIRST, _BYTES = 'site', 32


class KeyFile:
    """`trust.Keys` with the current content of a file."""

    def __init__(self, path: str, topic_prefix: str) -> None:
        """Read the file. If it is missing, create it with a new key, readable by the owner only.

        :param topic_prefix: prefix of topics, which interfaces in the file do not have
        :raises ConfigurationError: the file cannot be created or read, is accessible to others, or
            contains no key
        """
        self._prefix = topic_prefix
        try:
            key_file.make(path, _new_key)
            locations.check_private(path)
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot use {path}: {exc.strerror or exc}') from exc
        self._file = changing.ChangingFile(path, self._parse)

    def wrong(self) -> str | None:
        """Return the reason why the file cannot be read, or None if it can."""
        return self._file.wrong()

    @property
    def own(self) -> trust.Key:
        """Key that this process sends with."""
        return next(iter(self.accepted.values()))

    @property
    def accepted(self) -> Mapping[str, trust.Key]:
        """All keys by name."""
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
                # The text of the error may contain a part of the secret.
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
