"""Attachment map page in a browser: its contents, its filters and its errors."""
import json
import re
import threading
import unittest
import uuid

import webob

from blockattach.storage.db import models
from blockattach.storage.domain import attachment_lifecycle
from blockattach.tests.fixtures import browser
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import map_scene
from blockattach.tests.fixtures import polling

TOKEN = f'{make.USER}:{make.PROJECT}:admin'
WHOLE = 'document.querySelector("main[aria-busy=false]")'
LIVE = 'document.getElementById("freshness").textContent.includes("Live")'
FOCUSED = 'document.activeElement'
PREFIX = '/storage'
MANY = 2300
"""Number of attachments in more than two pages, so that the list is read from both ends."""
PAIRS = [(text, ground) for ground in ('ground', 'surface', 'hover', 'stuck-ground')
         for text in ('text', 'quiet', 'stuck')] + [
    ('accent', 'surface'), ('rw', 'surface'), ('ro', 'surface'), ('moving', 'surface')]

_State = attachment_lifecycle.State
chromium = None


def setUpModule():
    global chromium
    browser.need()
    chromium = browser.Browser()


def tearDownModule():
    if chromium is not None:
        chromium.close()


class Guarded:
    """API behind a token check like that of Keystone's middleware, and behind a proxy that removes
    `PREFIX`.
    """

    def __init__(self, application):
        self._application = application
        self.accepted = None
        self.lists_attachments = threading.Event()
        self.lists_attachments.set()

    def __call__(self, environ, start_response):
        environ['PATH_INFO'] = environ['PATH_INFO'].removeprefix(PREFIX)
        if environ['PATH_INFO'].endswith('/attachments/detail'):
            self.lists_attachments.wait(polling.LIMIT)
        status = self._refusal(environ)
        if status is None:
            return self._application(environ, start_response)
        return webob.Response(status=status, json_body={'error': {
            'message': 'The request you have made requires authentication.'}})(
                environ, start_response)

    def _refusal(self, environ):
        if self.accepted is None or not environ['PATH_INFO'].startswith('/v3'):
            return None
        return None if environ.get('HTTP_X_AUTH_TOKEN') == self.accepted else 401


class MapPageTestCase(unittest.TestCase):

    WATCHED = True
    SCENE = map_scene.SCENE

    def setUp(self):
        super().setUp()
        self.http = map_scene.fixture()
        self.addCleanup(self.http.close)
        self.attachments = map_scene.fill(self.http.database, self.SCENE)
        self.guarded = Guarded(self.http)
        self.server = map_scene.serve(self.guarded, self.http.database, self.WATCHED)
        self.addCleanup(self.server.stop)

    def view(self, begun=WHOLE, width=1280, prefix='', **emulated):
        """Open the page and wait until it shows everything."""
        page = chromium.page(width, **emulated)
        self.addCleanup(page.__exit__)
        page.open(f'{self.server.url}{prefix}/map')
        page.until(begun)
        return page

    def text(self, page, selector='body'):
        return page.run(f'document.querySelector({json.dumps(selector)}).innerText')

    def column(self, page, title):
        """Return the texts of the cells in a column."""
        return page.run(f"""[...document.querySelectorAll('tbody [data-label="{title}"]')]
                            .map((cell) => cell.innerText.split('\\n')[0])""")

    def choose(self, page, field, value):
        """Set the value of a filter field as a user does."""
        page.run(f"""(() => {{
            const field = document.getElementById('{field}');
            field[field.type === 'checkbox' ? 'checked' : 'value'] = {json.dumps(value)};
            field.dispatchEvent(new Event('input', {{bubbles: true}}));
        }})()""")

    def counts(self, page, sentence):
        """Wait until the page shows these counts."""
        page.until(f'document.getElementById("counts").textContent === {json.dumps(sentence)}')

    def attach(self, host):
        """Attach a new volume through the API and return the id of the attachment."""
        volume = self.http.as_member.post('/volumes', {'volume': {'size': 1, 'name': 'new'}})
        made = self.http.as_member.post('/attachments', {'attachment': {
            'volume_uuid': volume.body['volume']['id'], 'instance_uuid': str(uuid.uuid4()),
            'connector': make.connector(host=host)}})
        self.assertEqual(200, made.status, made.text)
        return made.body['attachment']['id']


class MapPageTest(MapPageTestCase):

    def test_map_shows_volumes_and_stuck_first(self):
        page = self.view()
        self.counts(page, '7 volumes, 14 attachments; 1 stuck.')
        volumes = self.column(page, 'Volume')
        self.assertEqual(15, len(volumes))
        self.assertEqual(['web-assets', 'archive', 'build-cache'], volumes[:3])
        self.assertEqual(f'⚠ Stuck: last error: {map_scene.REFUSED}',
                         self.column(page, 'Attention')[0])
        self.assertIn('ro\nenforced by target', page.run(
            """[...document.querySelectorAll('[data-label="Mode"]')].map((one) => one.innerText)
            """))
        self.assertIn('9 d 9 h', self.column(page, 'For'))
        first = page.run('document.querySelector(".node.volume").getAttribute("aria-label")')
        self.assertRegex(first, 'volume web-assets, in-use: compute-3, .*error_attaching, stuck')
        self.assertEqual(2 * 14, page.run('document.querySelectorAll("#graph .edge").length'))

    def test_map_requests_stay_on_origin_without_errors(self):
        page = self.view(LIVE)
        self.choose(page, 'text', 'compute')
        self.attach('compute-7')
        page.until('document.body.innerText.includes("compute-7")')
        self.assertEqual([], page.complaints())
        self.assertEqual([], [one for one in page.requests()
                              if not one.startswith(f'{self.server.url}/')])

    @exhaustive.only
    def test_map_served_behind_proxy_prefix(self):
        page = self.view(LIVE, prefix=PREFIX)
        self.counts(page, '7 volumes, 14 attachments; 1 stuck.')
        self.assertEqual([], [one for one in page.requests()
                              if not one.startswith(f'{self.server.url}{PREFIX}/')])

    def test_map_shows_full_server_ids_on_wide_screen(self):
        page = self.view()
        drawn = page.run("""[...document.querySelectorAll('#graph .node.server')].map((node) => [
            node.dataset.name,
            [...node.querySelectorAll('text')].map((one) => one.textContent).join('')])""")
        self.assertNotEqual([], drawn)
        self.assertEqual([], [pair for pair in drawn if pair[0] != pair[1]])

    def test_map_filters(self):
        page = self.view()
        for field, value, shown in (
                ('host', 'compute-4', '3 volumes, 3 attachments'),
                ('host', 'no host yet', '1 volume, 1 attachment'),
                ('project', make.PROJECT, '5 volumes, 10 attachments'),
                ('state', 'attaching', '1 volume, 1 attachment'),
                ('state', 'no attachments', '1 volume, 0 attachments'),
                ('text', 'DATA compute-2', '2 volumes, 2 attachments'),
                ('text', 'does not answer', '1 volume, 1 attachment'),
                ('stuck', True, '1 volume, 1 attachment'),
                ('text', 'nowhere', '0 volumes, 0 attachments')):
            with self.subTest(field=field, value=value):
                self.choose(page, field, value)
                self.counts(page, '7 volumes, 14 attachments; 1 stuck. '
                                  f'The filter shows {shown}.')
                page.run('document.querySelector("#filters [type=reset]").click()')
                self.counts(page, '7 volumes, 14 attachments; 1 stuck.')

    @exhaustive.only
    def test_map_heading_click_sorts_table(self):
        page = self.view()
        heading = 'document.querySelector("th.of-host")'
        page.run(f'{heading}.querySelector("button").click()')
        page.until(f'{heading}.getAttribute("aria-sort") === "ascending"')
        hosts = self.column(page, 'Host')
        self.assertEqual(sorted(filter(None, hosts)), hosts[:-1])
        page.run(f'{heading}.querySelector("button").click()')
        page.until(f'{heading}.getAttribute("aria-sort") === "descending"')
        self.assertEqual(sorted(filter(None, hosts), reverse=True), self.column(page, 'Host')[:-1])
        page.run('document.querySelector("th.of-age button").click()')
        page.until('document.querySelector("th.of-age").getAttribute("aria-sort") === "ascending"')
        self.assertEqual('none', page.run(f'{heading}.getAttribute("aria-sort")'))
        self.assertEqual('build-cache', self.column(page, 'Volume')[0])

    @exhaustive.only
    def test_map_usable_by_keyboard(self):
        page = self.view()
        page.press('Tab')
        self.assertEqual('Skip to the table', page.run(f'{FOCUSED}.textContent'))
        reached = []
        while not reached or reached[-1] != 'of-age':
            page.press('Tab')
            reached.append(page.run(f'{FOCUSED}.id || {FOCUSED}.dataset.kind || '
                                    f'{FOCUSED}.type === "reset" && "reset" || '
                                    f'{FOCUSED}.parentNode.className'))
            if reached[-1] == 'host' and page.run(f'{FOCUSED}.tagName') == 'g':
                self.follow_graph(page)
        self.assertEqual(
            ['read', 'change', 'project', 'host', 'state', 'text', 'stuck', 'reset', 'host',
             'of-stuck', 'of-volume', 'of-project', 'of-host', 'of-server', 'of-mode', 'of-state',
             'of-age'], reached)
        page.press('Enter')
        page.until('document.querySelector("th.of-age").getAttribute("aria-sort") === "ascending"')

    @exhaustive.only
    def test_map_keyboard_focus_starts_at_first_host(self):
        self.guarded.lists_attachments.clear()
        self.addCleanup(self.guarded.lists_attachments.set)
        page = self.view('document.querySelector(".node.volume")')
        self.guarded.lists_attachments.set()
        page.until(WHOLE)
        self.assertEqual('host', page.run(
            'document.querySelector(\'.node[tabindex="0"]\').dataset.kind'))

    def follow_graph(self, page):
        """Move through the graph with the arrow keys, and select a host as the filter."""
        name = f'{FOCUSED}.dataset.name'
        self.assertNotEqual('none', page.run(
            f'getComputedStyle({FOCUSED}.querySelector("rect")).strokeWidth'))
        first = page.run(name)
        page.press('ArrowDown')
        second = page.run(name)
        self.assertNotEqual(first, second)
        page.press('ArrowRight')
        self.assertEqual('volume', page.run(f'{FOCUSED}.dataset.kind'))
        page.press('ArrowRight')
        self.assertEqual('server', page.run(f'{FOCUSED}.dataset.kind'))
        page.press('ArrowLeft')
        page.press('ArrowLeft')
        page.press('Enter')
        host = page.run(name)
        page.until(f'document.getElementById("host").value === {json.dumps(host)}')
        page.until(f'{FOCUSED}.getAttribute("aria-pressed") === "true"')
        page.press(' ')
        page.until('document.getElementById("host").value === ""')
        page.until(f'{FOCUSED}.getAttribute("aria-pressed") === "false"')

    def test_map_stream_updates_attachments(self):
        page = self.view(LIVE)
        made = self.attach('compute-8')
        self.counts(page, '8 volumes, 15 attachments; 1 stuck.')
        self.assertIn('compute-8', self.text(page, '#table'))
        page.until('document.querySelector("tr.changed")')
        self.assertEqual(200, self.http.as_admin.delete(f'/attachments/{made}').status)
        self.counts(page, '8 volumes, 14 attachments; 1 stuck.')

    def test_map_shows_error_while_service_down(self):
        page = self.view(LIVE)
        self.server.stop()
        page.run('document.getElementById("read").click()')
        page.until('document.getElementById("problem").textContent.includes('
                   '"The service does not respond. Check that the service is running")')
        self.assertIn('The map shows the data that was read last.', self.text(page, '#problem'))
        self.assertIn('web-assets', self.text(page, '#table'))
        page.until('document.getElementById("freshness").textContent.includes("interrupted")')

    def test_map_escapes_markup_in_names(self):
        map_scene.fill(self.http.database, [map_scene.Held(map_scene.HOSTILE, 1, (
            map_scene.Use('<b>host</b>', make.connection.AccessMode.RW,
                          error='<svg onload=alert(3)>'),))])
        page = self.view()
        self.assertEqual(map_scene.HOSTILE, self.column(page, 'Volume')[0])
        self.assertEqual('⚠ Stuck: last error: <svg onload=alert(3)>',
                         self.column(page, 'Attention')[0])
        self.assertEqual(0, page.run('document.querySelectorAll('
                                     '"img, b, body script, tbody svg").length'))
        self.choose(page, 'host', '<b>host</b>')
        self.counts(page, '8 volumes, 15 attachments; 2 stuck. '
                          'The filter shows 1 volume, 1 attachment.')
        self.assertEqual([], page.complaints())

    def test_map_accessibility_tree(self):
        page = self.view()
        found = page.accessible()
        for wanted in (('heading', 'Attachment map'), ('main', ''), ('search', 'Filter'),
                       ('combobox', 'Project'), ('combobox', 'Host'), ('combobox', 'State'),
                       ('searchbox', 'Text'), ('checkbox', 'Only stuck'), ('status', ''),
                       ('heading', 'Graph'), ('group', 'Hosts'), ('group', 'Volumes'),
                       ('group', 'Servers'), ('button', 'host compute-3, 3 attachments, 1 stuck'),
                       ('columnheader', 'Attention'), ('rowheader', 'web-assets in-use, 80 GiB')):
            with self.subTest(wanted):
                self.assertTrue([one for one in found if one[0] == wanted[0]
                                 and one[1].startswith(wanted[1])], found)
        self.assertEqual([], [one for one in found if one[1].strip() == '' and one[0] in (
            'button', 'link', 'combobox', 'textbox', 'searchbox', 'checkbox', 'heading',
            'columnheader')])
        table = [one for one in found if one[0] == 'table']
        self.assertEqual([('table', 'Volumes and their attachments. Select a heading to '
                                    'sort by its column.')], table)
        self.assertEqual('en', page.run('document.documentElement.lang'))

    @exhaustive.only
    def test_map_color_contrast(self):
        for scheme in ('light', 'dark'):
            page = self.view(prefers_color_scheme=scheme)
            names = {name: page.run('getComputedStyle(document.documentElement)'
                                    f'.getPropertyValue("--{name}")')
                     for name in {name for pair in PAIRS for name in pair}}
            for text, ground in PAIRS:
                with self.subTest(scheme=scheme, text=text, ground=ground):
                    self.assertGreaterEqual(contrast(names[text], names[ground]), 4.5)

    @exhaustive.only
    def test_map_layout_on_narrow_screen(self):
        page = self.view(width=360)
        self.assertLessEqual(page.run('document.documentElement.scrollWidth'), 360)
        self.assertEqual('block', page.run('getComputedStyle(document.querySelector('
                                           '"tbody tr")).display'))
        self.assertEqual([], page.run(
            """[...document.querySelectorAll('button, select, th, td')].filter(
                (one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.innerText)"""))
        # Also in the card layout the accessibility tree has rows and cells.
        roles = {role for role, _ in page.accessible()}
        self.assertLessEqual({'table', 'row', 'cell', 'rowheader', 'columnheader'}, roles)
        self.assertEqual([], page.complaints())

    @exhaustive.only
    def test_map_respects_prefers_reduced_motion(self):
        page = self.view(LIVE, prefers_reduced_motion='reduce')
        self.attach('compute-8')
        page.until('document.querySelector("tr.changed")')
        self.assertEqual('none', page.run('getComputedStyle(document.querySelector('
                                          '"tr.changed")).animationName'))


@exhaustive.only
class LongListTest(MapPageTestCase):

    SCENE = (map_scene.Held('crowded', 1, (
        map_scene.Use('compute-1', make.connection.AccessMode.RW),)),)

    def test_map_reads_all_pages_of_long_list(self):
        with self.http.database.writer() as connection:
            [row] = connection.execute(models.attachments.select()).mappings()
            connection.execute(models.attachments.insert(), [
                {**row, 'id': str(uuid.uuid4()), 'initiator': f'{row["initiator"]}-{number}'}
                for number in range(MANY - 1)])
        for number in range(60):
            make.volume(self.http.database, name=f'volume-{number}')
        page = self.view()
        self.counts(page, '61 volumes, 2,300 attachments; 0 stuck.')
        self.assertEqual('2,160 rows of 2,360 are not listed. Use the filter, or list more rows.',
                         self.text(page, '#unlisted'))
        self.assertEqual('Volumes 1 to 40 of 61 are drawn. Use the filter, or draw other volumes.',
                         self.text(page, '#undrawn'))
        self.assertIn('2,276 more: see the table', self.text(page, '#graph'))
        for button, rest in (('list-more', 'unlisted'), ('draw-next', 'undrawn')):
            before = self.text(page, f'#{rest}')
            page.run(f'document.getElementById("{button}").click()')
            page.until(f'document.getElementById("{rest}").innerText !== {json.dumps(before)}')
        self.assertEqual(400, len(self.column(page, 'Volume')))
        # The previous volumes are removed, so that the page does not keep growing.
        self.assertEqual(
            'Volumes 41 to 61 of 61 are drawn. Use the filter, or draw other volumes.',
            self.text(page, '#undrawn'))
        self.assertEqual(21, page.run('document.querySelectorAll("#graph .card").length'))
        self.assertTrue(page.run('document.getElementById("draw-next").hidden'))
        page.run('document.getElementById("draw-former").click()')
        page.until('document.querySelectorAll("#graph .card").length === 40')
        self.assertEqual([], page.complaints())


class TokenTest(MapPageTestCase):

    def setUp(self):
        super().setUp()
        self.guarded.accepted = TOKEN

    def give(self, page, token):
        """Type a token into the token field, which must have the focus."""
        page.until('document.activeElement.id === "token"')
        page.write(token)
        page.press('Enter')

    def problem(self, page, words):
        page.until(f'document.getElementById("problem").textContent.includes({json.dumps(words)})')

    def test_token_requested_and_not_stored(self):
        page = self.view()
        self.problem(page, 'The service requires a token. Enter a token.')
        self.assertEqual('password', page.run('document.getElementById("token").type'))
        self.give(page, 'wrong')
        self.problem(page, 'The token is invalid or has expired.')
        self.give(page, TOKEN)
        self.counts(page, '7 volumes, 14 attachments; 1 stuck.')
        self.assertEqual('', self.text(page, '#problem'))
        self.assertFalse(page.run('document.getElementById("entry").offsetParent'))
        self.assertEqual(f'{self.server.url}/map', page.run('location.href'))
        self.assertEqual('', page.run('document.getElementById("token").value'))
        self.assertEqual([0, 0, ''], page.run(
            '[localStorage.length, sessionStorage.length, document.cookie]'))
        self.assertEqual([], [one for one in page.requests() if make.USER in one])

    def test_expired_token_requested_again(self):
        page = self.view()
        self.give(page, TOKEN)
        self.counts(page, '7 volumes, 14 attachments; 1 stuck.')
        self.guarded.accepted = 'a newer one'
        page.run('document.getElementById("read").click()')
        self.problem(page, 'has expired. Enter a new token. '
                           'The map shows the data that was read last.')
        self.assertIn('web-assets', self.text(page, '#table'))
        self.assertTrue(page.run('document.getElementById("entry").offsetParent !== null'))

    def test_token_without_role_shows_access_denied(self):
        self.guarded.accepted = token = f'{make.USER}:{make.PROJECT}:guest'
        page = self.view()
        self.give(page, token)
        self.problem(page, 'Access denied: ')
        self.problem(page, 'Use the token of a user with the role reader in a project.')

    def test_member_token_shows_own_project_only(self):
        self.guarded.accepted = token = f'{make.USER}:{make.PROJECT}:member,reader'
        page = self.view()
        self.give(page, token)
        self.counts(page, '5 volumes, 10 attachments; 1 stuck.')


@exhaustive.only
class WithoutStreamTest(MapPageTestCase):

    WATCHED = False

    def test_map_polls_without_stream(self):
        page = self.view('document.getElementById("freshness").textContent.includes('
                         '"refreshed every 5 s: no stream is available")')
        self.attach('compute-8')
        self.counts(page, '8 volumes, 15 attachments; 1 stuck.')
        self.assertIn('compute-8', self.text(page, '#table'))


def contrast(one, other):
    """Return the contrast ratio of two colours as WCAG 2 defines it."""
    low, high = sorted(map(_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour):
    digits = colour.strip().lstrip('#')
    digits = ''.join(2 * one for one in digits) if len(digits) == 3 else digits
    parts = [int(pair, 16) / 255 for pair in re.findall('..', digits)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
              for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear,
                                                      strict=True))
