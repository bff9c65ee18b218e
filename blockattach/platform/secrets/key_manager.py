"""Encryption keys in a key manager (Barbican, Vault), accessed with Castellan.

Castellan is an optional dependency. The key manager is configured by the options of Castellan:
``[key_manager]`` and the group of its backend.
"""
import base64
from collections.abc import Callable
from collections.abc import Sequence

from castellan import key_manager
from castellan.common import exception
from castellan.common import utils
from oslo_config import cfg
from oslo_log import log as oslo_log

from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform import secrets

LOG = oslo_log.getLogger(__name__)

# Length of a Fernet key: 128 bits to sign and 128 bits to encrypt.
_BITS = 256


class KeyManagerSealer(secrets.Sealer):
    """Sealer that uses keys of a key manager.

    The keys are fetched at start, and again when `reload` finds other key IDs in the
    configuration.
    """

    def __init__(self, conf: cfg.ConfigOpts, ids: Callable[[], Sequence[str]]) -> None:
        """
        :param ids: function that returns the IDs of the keys in the key manager, beginning with
            the encryption key
        :raises ConfigurationError: a key cannot be fetched from the key manager
        """
        super().__init__(())
        self._conf = conf
        self._ids = ids
        self._manager = key_manager.API(conf)
        self._named = tuple(ids())
        self._fetched = self._fetch(self._named)
        self._wrong: str | None = None

    def ring(self) -> Sequence[secrets.Key]:
        return self._fetched

    def wrong(self) -> str | None:
        """Return the reason why the last reload of the keys failed, or None."""
        return self._wrong

    def reload(self) -> None:
        """Fetch the keys if the configured IDs have changed.

        If a key cannot be fetched, the previous keys stay in use.
        """
        named = tuple(self._ids())
        self._wrong = None
        if named == self._named:
            return
        try:
            fetched = self._fetch(named)
        except errors.ConfigurationError as exc:
            self._wrong = str(exc)
            LOG.error('Failed to reload sealing keys, keeping the previous keys%s',
                      log.fields(reason=exc))
            return
        # Texts that were read before the reload may still need a key that was removed.
        self._remember(self._fetched)
        self._fetched = fetched
        self._named = named

    def add(self) -> str:
        """Create a key in the key manager, and return instructions for configuring the key."""
        try:
            made = self._manager.create_key(utils.credential_factory(self._conf),
                                            algorithm='AES', length=_BITS, name='blockattach')
        except Exception as exc:
            raise _refused('create a key', exc) from exc
        return f'Key {made} created in the key manager. Append the ID to seal_key_ids.'

    def promote(self) -> str:
        """Return instructions, because the order of the keys is configured."""
        return 'Move the last ID in seal_key_ids to the first place.'

    def keep_first(self) -> str:
        """Return instructions, because the set of keys is configured."""
        return 'Remove all IDs except the first from seal_key_ids.'

    def _fetch(self, named: Sequence[str]) -> tuple[secrets.Key, ...]:
        return tuple(self._fetch_one(one) for one in named)

    def _fetch_one(self, named: str) -> secrets.Key:
        try:
            found = self._manager.get(utils.credential_factory(self._conf), named)
            text = base64.urlsafe_b64encode(found.get_encoded() or b'')
        except Exception as exc:
            raise _refused(f'fetch key {named}', exc) from exc
        try:
            return secrets.Key(text)
        except ValueError as exc:
            raise errors.ConfigurationError(
                reason=f'key {named} in the key manager does not have {_BITS} bits') from exc


def certificate(conf: cfg.ConfigOpts, certificate_id: str) -> bytes:
    """Return a certificate from the key manager in DER format.

    :raises ConfigurationError: the certificate cannot be fetched
    """
    try:
        found = key_manager.API(conf).get(utils.credential_factory(conf), certificate_id)
        return bytes(found.get_encoded() or b'')
    except Exception as exc:
        raise _refused(f'fetch certificate {certificate_id}', exc) from exc


def _refused(act: str, exc: Exception) -> errors.ConfigurationError:
    # Texts of Castellan's own errors are safe to show. Other errors may contain secrets.
    reason = str(exc) if isinstance(exc, exception.CastellanException) else type(exc).__name__
    return errors.ConfigurationError(reason=f'the key manager failed to {act}: {reason}')
