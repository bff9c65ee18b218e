// What is shown of volumes and attachments, in the words and by the rules of the command
// "openstack volume attachment tree".

export const STATES = ['attached', 'attaching', 'detaching', 'error_attaching', 'error_detaching',
                       'reserved'];
export const NO_HOST = 'no host yet';
export const NO_SERVER = 'no server';
export const NO_ATTACHMENTS = 'no attachments';
const PROJECT = 'os-vol-tenant-attr:tenant_id';
const STUCK_AFTER = {error_attaching: 0, error_detaching: 0, attaching: 600};
const UNITS = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];

// A row for each attachment, and one for each volume without any; what is stuck first. The same
// order whenever it is asked for, so that nothing moves that has not changed.
export function rows(volumes, attachments, now) {
  const found = [];
  const used = new Set();
  for (const one of attachments.values()) {
    used.add(one.volume_id);
    found.push(row(volumes.get(one.volume_id), one, now));
  }
  for (const volume of volumes.values()) {
    if (!used.has(volume.id)) found.push(row(volume, null, now));
  }
  return found.sort(compare);
}

function row(volume, one, now) {
  const since = one?.attached_at ? Date.parse(`${one.attached_at}Z`) : NaN;
  const age = Number.isNaN(since) ? null : Math.max(0, Math.floor((now - since) / 1000));
  const volumeId = volume?.id ?? one.volume_id;
  const made = {
    key: one?.id ?? volumeId,
    attachment: one?.id ?? '',
    volumeId,
    volume: volume?.name || volumeId,
    volumeStatus: volume?.status ?? 'deleted',
    size: volume?.size ?? null,
    project: one?.project_id ?? volume?.[PROJECT] ?? '',
    host: one ? one.host || NO_HOST : '',
    server: one?.instance ?? '',
    mode: one?.mode ?? '',
    enforced: one?.mode_enforced_by ?? '',
    mountpoint: one?.mountpoint ?? '',
    state: one?.status ?? NO_ATTACHMENTS,
    age,
    stuck: one ? whyStuck(one, age) : '',
  };
  made.searched = [made.volume, volumeId, made.attachment, made.server, made.host, made.project,
                   made.stuck, made.mountpoint].join('\n').toLowerCase();
  return made;
}

function whyStuck(one, age) {
  if (one.last_error) return `last error: ${one.last_error}`;
  const limit = STUCK_AFTER[one.status];
  if (limit === 0) return 'in an error state';
  return limit !== undefined && (age ?? 0) >= limit
    ? 'connected but not completed for 10 minutes' : '';
}

function compare(a, b) {
  return (b.stuck !== '') - (a.stuck !== '') || ordered(a.volume, b.volume)
    || ordered(a.volumeId, b.volumeId) || ordered(a.host, b.host) || ordered(a.key, b.key);
}

const COLLATED = new Intl.Collator('en', {numeric: true});

function ordered(a, b) {
  return COLLATED.compare(a, b);
}

// The same rows by one column; those without a value are last in both directions.
export function sorted(found, key, descending) {
  const way = descending ? -1 : 1;
  const empty = (value) => value === '' || value === null;
  return found.toSorted((a, b) => {
    const [x, y] = [a[key], b[key]];
    if (empty(x) || empty(y)) return empty(x) - empty(y);
    return way * (typeof x === 'number' ? x - y : ordered(x, y));
  });
}

// `wanted`: project, host, state, text, stuck; what is empty filters nothing.
export function filtered(found, wanted) {
  const words = wanted.text.toLowerCase().split(/\s+/).filter(Boolean);
  return found.filter((one) => (!wanted.project || one.project === wanted.project)
    && (!wanted.host || one.host === wanted.host)
    && (!wanted.state || one.state === wanted.state)
    && (!wanted.stuck || one.stuck !== '')
    && words.every((word) => one.searched.includes(word)));
}

export function values(found, key) {
  return [...new Set(found.map((one) => one[key]).filter(Boolean))].sort(ordered);
}

// How many there are, in a sentence.
export function counts(all, shown) {
  const stuck = all.filter((one) => one.stuck).length;
  const text = `${amounts(all)}; ${stuck ? `${number(stuck)} stuck` : '0 stuck'}.`;
  return shown.length === all.length ? text : `${text} The filter shows ${amounts(shown)}.`;
}

function amounts(found) {
  const volumes = new Set(found.map((one) => one.volumeId)).size;
  const attachments = found.filter((one) => one.attachment).length;
  return `${plural(volumes, 'volume')}, ${plural(attachments, 'attachment')}`;
}

export function plural(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? '' : 's'}`;
}

export function number(count) {
  return count.toLocaleString('en');
}

// The two largest units.
export function inWords(seconds) {
  const parts = [];
  let rest = seconds;
  for (const [size, unit] of UNITS) {
    const count = Math.floor(rest / size);
    rest %= size;
    if (count || parts.length || unit === 's') parts.push(`${count} ${unit}`);
    if (parts.length === 2) break;
  }
  return parts.join(' ');
}
