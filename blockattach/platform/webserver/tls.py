"""TLS for the built-in server."""
import logging
import socket
import ssl

from blockattach.platform import errors
from blockattach.platform.conf import api as api_conf
from blockattach.platform.log import fields

LOG = logging.getLogger(__name__)

class Certificate:
    """Certificate of the server, with its key and the CA of client certificates."""

    def __init__(self, files: api_conf.TlsFiles) -> None:
        """
        :raises ConfigurationError: an item of ``files`` cannot be read or is invalid
        """
        self._files = files
        self._context = _context(files)
        self._is_behind = False

    def wrong(self) -> str | None:
        """Return the reason why the last reload of the files failed, or None.

        After a failed reload, this method reads the files again. If the files are valid now, the
        result is None, but the files take effect only with the next reload.
        """
        if self._is_behind:
            try:
                _context(self._files)
                self._is_behind = False
            except errors.ConfigurationError as exc:
                return str(exc)
        return None

    def reload(self) -> None:
        """Reload the files for new connections. After a failure, the previous files stay in use.
        """
        try:
            self._context = _context(self._files)
            self._is_behind = False
        except errors.ConfigurationError as exc:
            self._is_behind = True
            reason = str(exc)
        else:
            LOG.info('Certificate reloaded%s', fields(path=self._files.cert))
            return
        # Logged outside of the handler, because the log would otherwise repeat the reason.
        LOG.error('Failed to reload certificate, keeping the previous one%s',
                  fields(reason=reason))

    def wrap(self, sock: socket.socket) -> ssl.SSLSocket:
        """Return a TLS connection on a socket, whose handshake the caller must perform."""
        return self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)


def _context(files: api_conf.TlsFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    read = f'{files.cert} with {files.key or "the key in the same file"}'
    try:
        # With an empty password, an encrypted key fails instead of prompting on the terminal.
        context.load_cert_chain(files.cert, files.key, password='')
        if files.client_ca:
            read = files.client_ca
            context.load_verify_locations(files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as exc:
        reason = getattr(exc, 'reason', None) or getattr(exc, 'strerror', None) or exc
        raise errors.ConfigurationError(reason=f'cannot use {read}: {reason}') from exc
    return context
