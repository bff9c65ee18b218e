"""memcached for tests, where Keystone's answers are remembered."""
from blockattach.testing import servers


class Memcached(servers.Server):
    """memcached on the loopback address."""

    name = 'memcached'
    account = 'memcache'
    programs = ('memcached',)

    @property
    def url(self) -> str:
        """As ``memcached_servers`` takes it."""
        return f'{servers.LOOPBACK}:{self.port}'

    def _prepare(self) -> None:
        """It keeps nothing."""

    def _command(self) -> list[str]:
        secured = ['-Z', '-o', f'ssl_chain_cert={self._tls.cert},ssl_key={self._tls.key}'] if (
            self._tls) else []
        return [self._program['memcached'], '-l', servers.LOOPBACK, '-p', str(self.port), '-U',
                '0', *secured]

    def _answers(self) -> bool:
        return servers.heard(self.port, b'version\r\n', self._tls).startswith(b'VERSION ')
