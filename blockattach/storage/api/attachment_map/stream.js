// What happens to attachments, as it happens. EventSource cannot send a token, so the stream is read
// from an answer of fetch.

import {problemOf} from './api.js';

const NOT_OFFERED = [400, 403, 404, 406];

// Why there is no stream here. It is no use to ask again.
export class NotOffered extends Error {}

// Each event of one stream: its name, data and id. `last`: behind which id it begins.
export async function* events(api, last) {
  const answer = await api.ask('attachments?watch=true&all_tenants=1',
                               last === null ? {} : {'Last-Event-ID': last});
  if (answer.type === 'opaqueredirect') {
    throw new NotOffered('streams are served by another process of the service');
  }
  if (!answer.ok) {
    if (answer.status === 403) throw new NotOffered('the token is not allowed to watch');
    if (NOT_OFFERED.includes(answer.status)) throw new NotOffered('no stream is available');
    throw await problemOf(answer, api.token);
  }
  let text = '';
  for await (const part of texts(answer.body)) {
    const blocks = (text + part).split('\n\n');
    text = blocks.pop();
    for (const block of blocks) {
      const event = parsed(block);
      if (event.event) yield event;
    }
  }
}

async function* texts(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
  } finally {
    reader.cancel().catch(() => {});
  }
}

// A line without a name is a comment, which keeps the connection.
function parsed(block) {
  const found = {event: '', data: '{}', id: null};
  for (const line of block.split('\n')) {
    const [, name, value] = /^(\w*): ?(.*)$/.exec(line) ?? [];
    if (name) found[name] = value;
  }
  return found;
}
