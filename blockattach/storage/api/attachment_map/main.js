// The page: which service is read, by which filters it is shown, and what is wrong.

import {byId, element, say} from './elements.js';
import {Graph} from './graph.js';
import {NO_ATTACHMENTS, STATES, counts, filtered, rows, sorted, values} from './model.js';
import {Service} from './service.js';
import {Table} from './table.js';

const AGES_SECONDS = 10;
// Beside what the service has, so that they can be chosen before there is any.
const FILTERS = ['project', 'host', 'state', 'text'];

let service = null;
let isAsked = false;
let states = null;
const graph = new Graph(pick, showSoon);
const table = new Table(showSoon);

function begin(token) {
  service?.end();
  states = null;
  service = new Service(token, showSoon, fail);
  byId('main').setAttribute('aria-busy', 'true');
  service.run();
}

function showSoon() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    show();
  });
}

function show() {
  if (!service?.readAt && !service?.attachments.size && !service?.volumes.size) return;
  const all = rows(service.volumes, service.attachments, service.api.now());
  for (const id of ['filters', 'drawing', 'listing', 'read', 'change']) byId(id).hidden = false;
  offer('project', 'all projects', values(all, 'project'));
  offer('host', 'all hosts', values(all, 'host'));
  offer('state', 'all states', [...STATES, NO_ATTACHMENTS]);
  const wanted = readFilters();
  const found = filtered(all, wanted);
  // Before all is there the numbers would only be read out one after the other.
  say('counts', service.isWhole ? counts(all, found) : 'Loading…');
  say('freshness', service.freshness);
  graph.show(found, {host: wanted.host, volume: wanted.text, server: wanted.text});
  byId('drawing').hidden = found.length === 0;
  table.show(table.key === null ? found : sorted(found, table.key, table.descending),
             fresh(all));
  if (service.isWhole && byId('main').getAttribute('aria-busy') === 'true') {
    byId('main').setAttribute('aria-busy', 'false');
    // Once it is painted: what tools/time-map measures.
    requestAnimationFrame(() => setTimeout(() => performance.mark('whole')));
  }
}

// The keys of the rows that are new or in another state than a moment ago.
function fresh(all) {
  const before = states;
  states = service.isWhole ? new Map(all.map((one) => [one.key, one.state])) : null;
  return new Set(before === null ? []
    : all.filter((one) => before.get(one.key) !== one.state).map((one) => one.key));
}

function readFilters() {
  const found = Object.fromEntries(FILTERS.map((id) => [id, byId(id).value]));
  return {...found, text: found.text.trim(), stuck: byId('stuck').checked};
}

// What can be chosen; the choice stays, also while nothing has it.
function offer(id, all, names) {
  const select = byId(id);
  const chosen = select.value;
  const offered = chosen && !names.includes(chosen) ? [...names, chosen] : names;
  if (select.dataset.offered === JSON.stringify(offered)) return;
  select.dataset.offered = JSON.stringify(offered);
  select.replaceChildren(element('option', {value: ''}, all),
                         ...offered.map((name) => element('option', {value: name}, name)));
  select.value = chosen;
}

// What is chosen in the graph is a filter like any other; chosen again it is none.
function pick(kind, name) {
  const field = byId(kind === 'host' ? 'host' : 'text');
  field.value = field.value === name ? '' : name;
  showSoon();
}

function fail(error) {
  say('problem', error === null ? '' : `${error.message}${error.needsToken ? '' : ' Retrying ' +
    `in ${error.seconds ?? 5} s.`}${service.readAt === null ? '' : ' The map shows the data ' +
    'that was read last.'}`);
  if (error?.needsToken) askForToken();
  if (error !== null) byId('main').setAttribute('aria-busy', 'false');
}

function askForToken() {
  byId('entry').hidden = false;
  byId('change').setAttribute('aria-expanded', 'true');
  byId('token').focus();
}

byId('entry').addEventListener('submit', (event) => {
  event.preventDefault();
  const token = byId('token').value.trim();
  byId('token').value = '';
  byId('entry').hidden = true;
  byId('change').setAttribute('aria-expanded', 'false');
  say('problem', '');
  begin(token);
});
byId('change').addEventListener('click', () => {
  if (byId('entry').hidden) return askForToken();
  byId('entry').hidden = true;
  return byId('change').setAttribute('aria-expanded', 'false');
});
byId('read').addEventListener('click', () => service.readNow());
byId('filters').addEventListener('submit', (event) => event.preventDefault());
byId('filters').addEventListener('input', showSoon);
// Its fields are empty only after this event.
byId('filters').addEventListener('reset', () => setTimeout(showSoon));
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) service?.wake();
});
setInterval(showSoon, 1000 * AGES_SECONDS);
begin('');
