// The table: a row for each attachment. On a narrow screen its rows are cards (map.css).

import {byId, element, say} from './elements.js';
import {NO_SERVER, inWords, number, plural} from './model.js';

const STEP = 200;
const COLUMNS = [
  {title: 'Attention', key: 'stuck', cell: (one) => one.stuck && mark(`Stuck: ${one.stuck}`)},
  {title: 'Volume', key: 'volume', cell: (one) => pair(
    one.volume, one.volume === one.volumeId ? '' : one.volumeId,
    one.size === null ? one.volumeStatus : `${one.volumeStatus}, ${one.size} GiB`)},
  {title: 'Project', key: 'project', cell: (one) => one.project && small(one.project)},
  {title: 'Host', key: 'host', cell: (one) => one.host},
  {title: 'Server', key: 'server', cell: (one) => one.attachment && small(one.server || NO_SERVER)},
  {title: 'Mode', key: 'mode', cell: (one) => one.mode && pair(
    one.mode, '', one.enforced && `enforced by ${one.enforced}`)},
  {title: 'State', key: 'state', cell: (one) => element('span', {class: 'state'}, one.state)},
  {title: 'For', key: 'age', cell: (one) => one.age === null ? ''
    : element('span', {class: 'state'}, inWords(one.age))},
];

function small(text) {
  return element('span', {class: 'id'}, text);
}

function mark(text) {
  return element('span', {class: 'stuck'}, element('span', {'aria-hidden': 'true'}, '⚠ '), text);
}

function pair(first, id, below) {
  const made = element('span', {}, element('span', {class: 'first'}, first));
  if (below) made.append(element('span', {class: 'below'}, below));
  if (id) made.append(element('span', {class: 'id'}, id));
  return made;
}

export class Table {
  // `changed` is called when the order or the number of rows is to be another one.
  constructor(changed) {
    this.key = null;
    this.descending = false;
    this.most = STEP;
    this.known = new Map();
    this.body = byId('table').tBodies[0];
    this.heads = COLUMNS.map((column) => this.head(column, changed));
    byId('table').tHead.append(element('tr', {role: 'row'}, ...this.heads));
    byId('list-more').addEventListener('click', () => {
      this.most += STEP;
      changed();
    });
  }

  head(column, changed) {
    const button = element('button', {type: 'button'}, column.title,
                           element('span', {class: 'way', 'aria-hidden': 'true'}));
    button.addEventListener('click', () => {
      this.descending = this.key === column.key && !this.descending;
      this.key = column.key;
      changed();
    });
    return element('th', {role: 'columnheader', scope: 'col', class: `of-${column.key}`}, button);
  }

  // Without a choice the first column says the order: what is stuck is first.
  showOrder() {
    this.heads.forEach((head, at) => {
      const key = COLUMNS[at].key;
      const is = key === (this.key ?? COLUMNS[0].key);
      head.setAttribute('aria-sort', !is ? 'none' : this.descending ? 'descending' : 'ascending');
      head.querySelector('.way').textContent = !is ? '' : this.descending ? ' ▼' : ' ▲';
    });
  }

  // Rows that are as they were stay the elements that they were, so that nothing is read out twice.
  // `fresh`: the keys of those that are new or in another state.
  show(rows, fresh) {
    this.showOrder();
    const shown = rows.slice(0, this.most);
    const next = new Map();
    for (const one of shown) {
      const sign = JSON.stringify(one);
      const before = this.known.get(one.key);
      next.set(one.key, before?.sign === sign ? before
        : {sign, element: line(one, fresh.has(one.key))});
    }
    this.known = next;
    const elements = [...next.values()].map((found) => found.element);
    if (elements.length !== this.body.rows.length
        || elements.some((found, at) => found !== this.body.rows[at])) {
      this.body.replaceChildren(...elements);
    }
    this.showRest(rows.length - shown.length, rows.length);
  }

  showRest(rest, all) {
    byId('table').hidden = all === 0;
    say('unlisted', all === 0 ? 'There is nothing to show.' : rest === 0 ? ''
      : `${plural(rest, 'row')} of ${number(all)} are not listed. Use the filter, or list more rows.`);
    say('list-more', rest === 0 ? '' : `List ${number(Math.min(rest, STEP))} more`);
  }
}

function line(one, changed) {
  const cells = COLUMNS.map((column) => {
    const names = column.key === 'volume' ? {role: 'rowheader', scope: 'row'} : {role: 'cell'};
    const content = column.cell(one) || '';
    return element(column.key === 'volume' ? 'th' : 'td', {
      ...names, 'data-label': column.title, class: content === '' ? 'empty' : null}, content);
  });
  return element('tr', {role: 'row', class: [
    one.stuck ? 'is-stuck' : '', changed ? 'changed' : ''].join(' ').trim() || null}, ...cells);
}
