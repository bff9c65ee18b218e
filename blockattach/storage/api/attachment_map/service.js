// What the service has, kept as it is there: read as a whole now and then, and by volume whenever the
// stream says that something has happened.

import {Api} from './api.js';
import {NotOffered, events} from './stream.js';

const POLL_SECONDS = 5;
const LIVE_SECONDS = 60;
const RETRY_SECONDS = 5;
const STREAM_MILLISECONDS = 500;
const SHOWN_MILLISECONDS = 400;
// With more changed volumes than this all is read.
const MANY = 50;

export class Service {
  // `show` is called whenever there is something new; `fail` with what is wrong, null if nothing is.
  constructor(token, show, fail) {
    this.volumes = new Map();
    this.attachments = new Map();
    this.isWhole = false;
    this.readAt = null;
    this.live = '';
    this.ending = new AbortController();
    this.api = new Api(token, this.ending.signal);
    this.show = show;
    this.fail = fail;
    this.changed = new Set();
    this.due = 0;
    this.pollSeconds = POLL_SECONDS;
    this.wake = () => {};
    this.begun = () => {};
  }

  end() {
    this.ending.abort();
    this.wake();
  }

  readNow() {
    this.due = 0;
    this.wake();
  }

  // How new what is shown is, in a sentence.
  get freshness() {
    const when = this.readAt === null ? 'Not loaded yet.'
      : `Read at ${this.readAt.toLocaleTimeString('en-GB')}`;
    if (this.readAt === null) return when;
    return this.live === '' ? `Live: changes are shown immediately. ${when}.`
      : `${when}, refreshed every ${Math.round(this.pollSeconds)} s: ${this.live}.`;
  }

  async run() {
    // What happens from the beginning of the stream on, is in it; one that hangs holds nothing up.
    await Promise.race([new Promise((resolve) => {
      this.begun = resolve;
      this.follow();
    }), new Promise((resolve) => setTimeout(resolve, STREAM_MILLISECONDS))]);
    while (!this.ending.signal.aborted) {
      try {
        await this.readDue();
        this.fail(null);
      } catch (error) {
        if (this.ending.signal.aborted) return;
        this.fail(error);
        if (error.needsToken) return;
        this.due = Date.now() + 1000 * (error.seconds ?? RETRY_SECONDS);
        this.changed.clear();
      }
      await this.pause();
    }
  }

  async readDue() {
    if (Date.now() >= this.due || this.changed.size > MANY) {
      this.changed.clear();
      await this.readAll();
    } else if (this.changed.size) {
      const ids = [...this.changed];
      this.changed.clear();
      await Promise.all(ids.map((id) => this.readVolume(id)));
    }
    this.readAt = new Date();
    this.show();
  }

  async readAll() {
    const begin = Date.now();
    // The first time, what has arrived is shown while the rest is on its way, but not page by page:
    // to draw takes the time of what is still to be read.
    let shown = 0;
    const arrived = (into) => (page) => {
      if (this.isWhole) return;
      for (const one of page) into.set(one.id, one);
      if (Date.now() - shown < SHOWN_MILLISECONDS) return;
      shown = Date.now();
      this.show();
    };
    const [volumes, attachments] = await Promise.all([
      this.api.list('volumes', arrived(this.volumes)),
      this.api.list('attachments', arrived(this.attachments))]);
    Object.assign(this, {volumes, attachments, isWhole: true});
    // A large cloud is read less often: a viewer takes a tenth of a service's time at most.
    this.pollSeconds = Math.max(POLL_SECONDS, (Date.now() - begin) / 100);
    this.due = Date.now() + 1000 * (this.live === '' ? LIVE_SECONDS : this.pollSeconds);
  }

  async readVolume(id) {
    const [volume, attachments] = await this.api.volume(id);
    if (volume === null) this.volumes.delete(id);
    else this.volumes.set(id, volume);
    for (const [key, one] of this.attachments) {
      if (one.volume_id === id) this.attachments.delete(key);
    }
    for (const one of attachments) this.attachments.set(one.id, one);
  }

  // Until something is due; a page that nobody sees reads nothing.
  pause() {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        if (!document.hidden) this.wake();
      }, this.changed.size ? 0 : Math.max(0, this.due - Date.now()));
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async follow() {
    let last = null;
    this.live = 'the stream is not started';
    while (!this.ending.signal.aborted) {
      try {
        for await (const event of events(this.api, last)) {
          last = event.id ?? last;
          this.on(event);
        }
      } catch (error) {
        if (this.ending.signal.aborted) return;
        if (error.needsToken) {
          this.begun();
          return;
        }
        this.setLive(error instanceof NotOffered ? error.message : 'the stream is interrupted');
        if (error instanceof NotOffered) return;
        await new Promise((resolve) => setTimeout(resolve, 1000 * RETRY_SECONDS));
      }
    }
  }

  on(event) {
    if (event.event === 'ready') this.setLive('');
    else if (event.event === 'missed') this.due = 0;
    else if (event.event === 'attachment') this.changed.add(JSON.parse(event.data).volume_id);
    else return;
    this.wake();
  }

  setLive(why) {
    this.begun();
    if (this.live === why) return;
    this.live = why;
    // What happened before the stream is read once more, what happens without one soon.
    this.due = this.isWhole ? 0 : this.due;
    this.show();
    this.wake();
  }
}
