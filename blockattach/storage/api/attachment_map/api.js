// Requests of the Block Storage API with the extension, in the name of the viewer.

const VERSIONS = 'volume 3.71, blockattach 1.5';
const PAGE = 1000;
// Beside the page, so that a prefix of a proxy is theirs, too.
const BASE = new URL('v3/', document.baseURI);

// Why something could not be read, in a sentence that says what to do. `status` 0: no answer.
export class Problem extends Error {
  constructor(status, sentence, seconds = null) {
    super(sentence);
    this.status = status;
    this.seconds = seconds;
  }

  get needsToken() {
    return this.status === 401 || this.status === 403;
  }
}

export class Api {
  // `token` '': none is sent, as for a service without authentication.
  constructor(token, signal) {
    this.token = token;
    this.signal = signal;
    this.behind = 0;
  }

  // The clock of the service, by which its times are read.
  now() {
    return Date.now() + this.behind;
  }

  async ask(path, headers = {}) {
    const sent = {'OpenStack-API-Version': VERSIONS, ...headers};
    if (this.token) sent['X-Auth-Token'] = this.token;
    try {
      return await fetch(new URL(path, BASE), {
        headers: sent, signal: this.signal, cache: 'no-store', redirect: 'manual'});
    } catch (error) {
      throw this.lost(error);
    }
  }

  lost(error) {
    return this.signal.aborted ? error : new Problem(
      0, 'The service does not respond. Check that the service is running and reachable.');
  }

  async read(path) {
    const answer = await this.ask(path);
    if (!answer.ok) throw await problemOf(answer, this.token);
    const date = Date.parse(answer.headers.get('Date') ?? '');
    if (date) this.behind = date - Date.now();
    try {
      return await answer.json();
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw this.lost(error);
      throw new Problem(answer.status, `The server at ${BASE.pathname} is not the Block Storage ` +
                                       'API. A proxy must forward v3/ as well as the map.');
    }
  }

  // All items of a list, by id. `arrived` is called with each page. What is long is read from both
  // ends at once, until the two meet.
  async list(noun, arrived) {
    const reading = {noun, arrived, found: new Map(), count: Infinity, met: null};
    const first = await this.page(reading, 'desc', null);
    take(first, reading);
    if (reading.found.size >= reading.count) return reading.found;
    const walks = [this.walk(reading, 'desc', first)];
    if (first.length === PAGE && reading.count > 2 * PAGE) {
      walks.push(this.walk(reading, 'asc', null));
    }
    await Promise.race([new Promise((resolve) => {
      reading.met = resolve;
    }), Promise.all(walks)]);
    return reading.found;
  }

  async walk(reading, direction, before) {
    let page = before;
    while (page === null || page.length > 0) {
      page = await this.next(reading, direction, page);
      if (!take(page, reading) || reading.found.size >= reading.count) {
        reading.met();
        return;
      }
    }
  }

  // The page behind another one, also if the last of that is gone meanwhile.
  async next(reading, direction, before) {
    for (const one of before?.toReversed() ?? []) {
      try {
        return await this.page(reading, direction, one.id);
      } catch (error) {
        if (error.status !== 404) throw error;
      }
    }
    return this.page(reading, direction, null);
  }

  async page(reading, direction, marker) {
    const query = new URLSearchParams({
      all_tenants: 1, limit: PAGE, sort: `created_at:${direction},id:${direction}`});
    if (marker) query.set('marker', marker);
    // Other lists do not count.
    if (reading.noun === 'volumes') query.set('with_count', 'true');
    const body = await this.read(`${reading.noun}/detail?${query}`);
    reading.count = body.count ?? Infinity;
    return body[reading.noun];
  }

  // One volume with its attachments; null and none if it is gone.
  async volume(id) {
    const query = new URLSearchParams({all_tenants: 1, volume_id: id});
    const [volume, attachments] = await Promise.all([
      this.read(`volumes/${encodeURIComponent(id)}`).then((body) => body.volume, absent),
      this.read(`attachments/detail?${query}`)]);
    return [volume, attachments.attachments];
  }
}

// Keeps what is new; false if something was known already, which the other end has read.
function take(page, {found, arrived}) {
  const fresh = page.filter((one) => !found.has(one.id));
  for (const one of fresh) found.set(one.id, one);
  if (fresh.length) arrived(fresh);
  return fresh.length === page.length;
}

function absent(error) {
  if (error.status === 404) return null;
  throw error;
}

export async function problemOf(answer, token) {
  const sentence = await sentenceOf(answer);
  const seconds = Number(answer.headers.get('Retry-After')) || null;
  if (answer.status === 401) return new Problem(401, unauthorized(answer, token));
  if (answer.status === 403) {
    return new Problem(403, `Access denied: ${sentence} Use the token of a user ` +
                            'with the role reader in a project.');
  }
  if (answer.status === 429 || answer.status === 503) {
    return new Problem(answer.status, `The service is not available: ${sentence}`, seconds);
  }
  const name = answer.headers.get('x-openstack-request-id');
  return new Problem(answer.status, `The request failed with status ${answer.status}: ${sentence}` +
    (name ? ` See the log of the service for the request ${name}.` : ''), seconds);
}

function unauthorized(answer, token) {
  if (/^basic/i.test(answer.headers.get('WWW-Authenticate') ?? '')) {
    return 'The service requires a user name and a password. Reload the page, and enter them.';
  }
  return token ? 'The token is invalid or has expired. Enter a new token.'
    : 'The service requires a token. Enter a token.';
}

async function sentenceOf(answer) {
  try {
    const [inner] = Object.values(await answer.json());
    return /[.!?]$/.test(inner.message) ? inner.message : `${inner.message}.`;
  } catch {
    return 'no reason given.';
  }
}
