"""Settings read from options of the same names."""
import dataclasses
import unittest

from oslo_config import cfg

from blockattach.platform.conf import api
from blockattach.platform.conf import database
from blockattach.platform.conf import rpc
from blockattach.platform.conf import settings
from blockattach.storage.conf import attachments
from blockattach.storage.conf import control
from blockattach.storage.conf import nova
from blockattach.storage.conf import scheduler
from blockattach.storage.conf import volume
from blockattach.wiring import options

OPTIONS = (cfg.IntOpt('number', default=1), cfg.ListOpt('names', default=['a']),
           cfg.StrOpt('file'), cfg.StrOpt('word', default='x'))

DEFAULTS = {
    api: api.ApiSettings(),
    attachments: attachments.AttachmentSettings(),
    control: control.ControlSettings(),
    nova: nova.NovaSettings(),
    rpc: rpc.RpcSettings(),
    scheduler: scheduler.SchedulerSettings(),
    volume: volume.VolumeSettings(),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    number: int
    names: tuple[str, ...]
    file: str | None
    word: str
    derived: str = ''


class SettingsTest(unittest.TestCase):

    def configured(self, **values):
        conf = cfg.ConfigOpts()
        options.register(conf)
        conf.register_opts(OPTIONS, group='example')
        conf([], default_config_files=[], default_config_dirs=[])
        for name, value in values.items():
            conf.set_override(name, value, group='example')
        return conf

    def test_fields_read_by_name(self):
        found = settings.read(self.configured(number=2, file='/x'), 'example', Settings,
                              derived='y')
        self.assertEqual(Settings(2, ('a',), '/x', 'x', 'y'), found)

    def test_empty_text_of_optional_field_is_none(self):
        found = settings.read(self.configured(file='', word=''), 'example', Settings, derived='')
        self.assertEqual((None, ''), (found.file, found.word))

    def test_read_from_default_group(self):
        @dataclasses.dataclass(frozen=True)
        class Core:
            graceful_shutdown_timeout: int

        self.assertEqual(Core(60), settings.read(self.configured(), None, Core))

    def test_defaults_equal_option_defaults(self):
        conf = self.configured()
        for group, defaults in DEFAULTS.items():
            with self.subTest(group.GROUP):
                self.assertEqual(defaults, group.settings(conf))
        self.assertEqual(database.DatabaseSettings('x'), database.settings(conf, 'x'))
