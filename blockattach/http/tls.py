"""TLS for the built-in server."""
import logging
import socket
import ssl
from typing import Any

from cheroot import makefile
from cheroot import ssl as cheroot_ssl

from blockattach import errors
from blockattach.conf import api as api_conf
from blockattach.log import fields

LOG = logging.getLogger(__name__)

ENVIRON = {'wsgi.url_scheme': 'https', 'HTTPS': 'on'}
_PLAIN = (b'HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n'
          b'Content-Length: 30\r\n\r\nThis port speaks HTTPS (TLS).\n')


class _Reader(makefile.StreamReader):
    """Knows of what was decrypted and not yet read: the socket looks empty by then."""

    def __init__(self, sock: ssl.SSLSocket, mode: str, bufsize: int) -> None:
        super().__init__(sock, mode, bufsize)
        self._socket = sock

    def has_data(self) -> bool:
        """Whether something can be read without waiting."""
        return bool(super().has_data() or self._socket.pending())


class Adapter(cheroot_ssl.Adapter):
    """Wraps connections; the handshake is left to the thread that serves the connection
    (`shake_hands`), so that a client who keeps silent in it holds up nobody else."""

    def __init__(self, files: api_conf.TlsFiles) -> None:
        """
        :raises ConfigurationError: a file cannot be used
        """
        self._files = files
        self._context = _context(files)

    def reload(self) -> None:
        """Read the files anew, for connections from now on; a broken one leaves all as it was."""
        try:
            self._context = _context(self._files)
        except errors.ConfigurationError as exc:
            reason = str(exc)
        else:
            LOG.info('Certificate is read anew%s', fields(path=self._files.cert))
            return
        # Beside the exception it would be told twice.
        LOG.error('Cannot read the certificate anew, the former one stays%s',
                  fields(reason=reason))

    def bind(self, sock: socket.socket) -> socket.socket:
        """Cheroot's: nothing is done to the listening socket."""
        return sock

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        """Cheroot's: a connection, and what requests on it are told of it."""
        return self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), (
            self.get_environ())

    def get_environ(self) -> dict[str, str]:
        """Cheroot's: what requests are told."""
        return dict(ENVIRON)

    def makefile(self, sock: ssl.SSLSocket, mode: str = 'r', bufsize: int = -1) -> Any:
        """Cheroot's: a connection as a file."""
        kind = _Reader if 'r' in mode else makefile.StreamWriter
        return kind(sock, mode, bufsize)


def shake_hands(sock: ssl.SSLSocket) -> bool:
    """Whether the client and we have agreed, within the time-out of the socket."""
    try:
        sock.do_handshake()
    except OSError as exc:
        LOG.debug('Cannot agree with a client on TLS%s', fields(reason=exc))
        if getattr(exc, 'reason', None) == 'HTTP_REQUEST':
            # Past the encryption that was never begun.
            socket.socket.send(sock, _PLAIN)
        return False
    return True


def _context(files: api_conf.TlsFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # With a password at hand, though a wrong one, nobody is asked for it on the terminal.
        context.load_cert_chain(files.cert, files.key, password='')
    except (OSError, ValueError) as exc:
        raise _unusable(f'{files.cert} with {files.key or "the key in it"}', exc) from exc
    if files.client_ca:
        try:
            context.load_verify_locations(files.client_ca)
        except (OSError, ValueError) as exc:
            raise _unusable(files.client_ca, exc) from exc
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _unusable(what: str, exc: Exception) -> errors.ConfigurationError:
    reason = getattr(exc, 'reason', None) or getattr(exc, 'strerror', None) or exc
    return errors.ConfigurationError(reason=f'cannot use {what}: {reason}')
