// The graph, as SVG. One tab stop; the arrow keys go from one thing to the next.

import {byId, drawn, say} from './elements.js';
import {HEAD, NODE, curve, fit, folded, grouped, placed} from './layout.js';
import {NO_ATTACHMENTS, inWords, number, plural} from './model.js';

const STEP = 40;
const TITLES = {host: 'Hosts', volume: 'Volumes', server: 'Servers'};

export class Graph {
  // `pick` is called with a kind and a name: only what belongs to it is to be shown, or all again.
  constructor(pick, changed) {
    this.pick = pick;
    this.first = 0;
    this.sign = this.ages = '';
    this.place = byId('graph');
    this.current = null;
    for (const [id, way] of [['draw-former', -STEP], ['draw-next', STEP]]) {
      byId(id).addEventListener('click', () => {
        this.first += way;
        changed();
      });
    }
    new ResizeObserver(changed).observe(this.place);
    this.place.addEventListener('keydown', (event) => this.onKey(event));
    this.place.addEventListener('click', (event) => this.choose(event.target));
    // Only what had the focus is come back to: before that it is the first one, whatever was read first.
    this.place.addEventListener('focusin', (event) => {
      const node = event.target.closest('.node');
      if (node) this.current = keyOf(node);
    });
    for (const name of ['pointerover', 'focusin']) {
      this.place.addEventListener(name, (event) => this.light(event.target));
    }
    for (const name of ['pointerleave', 'focusout']) {
      this.place.addEventListener(name, () => this.light(null));
    }
  }

  // `picked`: which thing each kind is narrowed to.
  show(rows, picked) {
    const width = Math.floor(this.place.clientWidth);
    const {groups, first, all} = grouped(rows, this.first, STEP);
    this.first = first;
    const had = this.place.contains(document.activeElement);
    const sign = JSON.stringify([width, picked, groups, first, all], withoutAge);
    const ages = JSON.stringify(rows.map((one) => one.age));
    // While the focus is in it, it is not drawn anew, and read out again, for an age.
    if (!width || (sign === this.sign && (had || ages === this.ages))) return;
    this.sign = sign;
    this.ages = ages;
    this.picked = picked;
    const picture = placed(groups, width);
    this.place.replaceChildren(this.draw(picture, width));
    this.setStop(had);
    const rest = all - first - groups.length;
    say('undrawn', all === groups.length ? ''
      : `Volumes ${number(first + 1)} to ${number(first + groups.length)} of ${number(all)} are drawn. ` +
        'Use the filter, or draw other volumes.');
    say('draw-former', first === 0 ? '' : `Draw the ${STEP} before`);
    say('draw-next', rest === 0 ? '' : `Draw the next ${Math.min(rest, STEP)}`);
  }

  draw({at, cards, nodes, height}, width) {
    const edges = drawn('g', {'aria-hidden': 'true'});
    const volumes = drawn('g', {role: 'group', 'aria-label': TITLES.volume});
    for (const card of cards) {
      volumes.append(this.card(card, at));
      for (const line of card.lines) edges.append(...this.port(line, at));
    }
    const svg = drawn('svg', {
      width, height, viewBox: `0 0 ${width} ${height}`, role: 'group',
      'aria-labelledby': 'graph-title', 'aria-describedby': 'about-graph'}, edges);
    for (const kind of ['host', 'volume', 'server']) {
      if (!at[kind]) continue;
      const [x, wide] = at[kind];
      svg.append(drawn('text', {class: 'column', x: x + wide / 2, y: 16, 'text-anchor': 'middle',
                                'aria-hidden': 'true'}, TITLES[kind]));
      if (kind === 'volume') svg.append(volumes);
      else svg.append(this.side(kind, nodes[kind], at, edges));
    }
    return svg;
  }

  side(kind, nodes, at, edges) {
    const [x, width] = at[kind];
    const [begin, wide] = at.volume;
    const found = drawn('g', {role: 'group', 'aria-label': TITLES[kind]});
    for (const node of nodes) {
      const y = node.y + NODE / 2;
      for (const line of node.lines) {
        edges.prepend(drawn('path', {class: `edge ${lookOf(line.one)}`, ...ends(line.one),
          d: kind === 'host' ? curve(x + width, y, begin - 8, line.y)
            : curve(begin + wide + 8, line.y, x, y)}));
      }
      const stuck = node.lines.filter((line) => line.one.stuck).length;
      const label = `${kind} ${node.name}, ${plural(node.lines.length, 'attachment')}` +
        (stuck ? `, ${stuck} stuck` : '');
      found.append(this.node(kind, node.name, label, [
        drawn('rect', {x, y: node.y, width, height: NODE, rx: 8}),
        ...named(node.name, x + 10, y, width - 18, kind === 'server' ? 7.9 : 7.2)]));
    }
    return found;
  }

  card({lined, lines, rest, y, height}, at) {
    const [x, width] = at.volume;
    const [first] = lined;
    const status = first.volumeStatus;
    const size = first.size === null || width < 240 ? '' : `${first.size} GiB, `;
    const right = `${size}${status}`;
    const parts = [
      drawn('rect', {x, y, width, height, rx: 8}),
      drawn('text', {class: 'title', x: x + 12, y: y + 19},
            fit(first.volume, width - 34 - right.length * 6.4, 7.6)),
      drawn('text', {class: 'quiet', x: x + width - 12, y: y + 19, 'text-anchor': 'end'}, right),
      drawn('path', {class: 'rule', d: `M${x} ${y + HEAD - 2}h${width}`})];
    for (const line of lines) {
      parts.push(drawn('text', {class: line.one.stuck ? 'stuck' : 'line', x: x + 12, y: line.y + 4},
                       fit(said(line.one), width - 20, 6.6)));
    }
    const more = rest ? `${number(rest)} more: see the table` : '';
    if (more) {
      parts.push(drawn('text', {class: 'line', x: x + 12, y: y + height - 12}, more));
    }
    const label = `volume ${first.volume}, ${status}: ` +
      [...lines.map((line) => spoken(line.one)), more].filter(Boolean).join('; ');
    return this.node('volume', first.volumeId, label, parts,
                     lined.some((one) => one.stuck) ? 'card is-stuck' : 'card');
  }

  port({one, y}, at) {
    if (!one.attachment) return [];
    const [x, width] = at.volume;
    const made = [drawn('circle', {class: `port ${lookOf(one)}`, cx: x - 4, cy: y, r: 4})];
    if (at.server && one.server) {
      made.push(drawn('circle', {class: `port ${lookOf(one)}`, cx: x + width + 4, cy: y, r: 4}));
    }
    return made;
  }

  node(kind, name, label, parts, look = '') {
    return drawn('g', {
      class: `node ${kind} ${look}`.trim(), role: 'button', tabindex: -1, 'data-kind': kind,
      'data-name': name, 'aria-label': label, 'aria-pressed': String(this.picked[kind] === name)},
    drawn('title', {}, label), ...parts);
  }

  // The one that the Tab key leads to; it keeps the focus if the graph is drawn anew.
  setStop(had) {
    const all = [...this.place.querySelectorAll('.node')];
    const stop = all.find((node) => keyOf(node) === this.current) ?? all[0];
    if (!stop) return;
    stop.setAttribute('tabindex', 0);
    if (had) stop.focus({preventScroll: true});
  }

  moveTo(node) {
    if (!node) return;
    this.place.querySelector('.node[tabindex="0"]')?.setAttribute('tabindex', -1);
    node.setAttribute('tabindex', 0);
    node.focus();
  }

  onKey(event) {
    const node = event.target.closest('.node');
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Enter' || event.key === ' ') this.choose(node);
    else if (event.key in STEPS) this.moveTo(STEPS[event.key](node));
    else return;
    event.preventDefault();
  }

  choose(target) {
    const node = target.closest?.('.node');
    if (!node) return;
    this.current = keyOf(node);
    this.pick(node.dataset.kind, node.dataset.name);
  }

  // Shows what a thing is joined with, while it is pointed at.
  light(target) {
    const node = target?.closest?.('.node');
    this.place.firstElementChild?.classList.toggle('dim', Boolean(node));
    for (const edge of this.place.querySelectorAll('.edge')) {
      edge.classList.toggle('lit', Boolean(node)
        && edge.dataset[node.dataset.kind] === node.dataset.name);
    }
  }
}

const STEPS = {
  ArrowDown: (node) => node.nextElementSibling,
  ArrowUp: (node) => node.previousElementSibling,
  ArrowLeft: (node) => beside(node, -1),
  ArrowRight: (node) => beside(node, 1),
  Home: (node) => node.parentNode.firstElementChild,
  End: (node) => node.parentNode.lastElementChild,
};

// The nearest one of the next column.
function beside(node, way) {
  const columns = [...node.ownerSVGElement.querySelectorAll('g[role="group"]')];
  const column = columns[columns.indexOf(node.parentNode) + way];
  const top = node.getBBox().y;
  const far = (one) => Math.abs(one.getBBox().y - top);
  return column && [...column.children].reduce(
    (best, one) => (!best || far(one) < far(best) ? one : best), null);
}

// In one line, or in two smaller ones: the id of a server is needed whole.
function named(name, x, y, width, letter) {
  const lines = folded(name, width, letter);
  if (lines.length === 1) return [drawn('text', {x, y: y + 4.5}, lines[0])];
  return lines.map((line, row) => drawn('text', {class: 'half', x, y: y - 2 + 12 * row}, line));
}

function withoutAge(name, value) {
  return name === 'age' ? undefined : value;
}

function keyOf(node) {
  return `${node.dataset.kind} ${node.dataset.name}`;
}

function ends(one) {
  return {'data-host': one.host, 'data-volume': one.volumeId, 'data-server': one.server};
}

// By more than colour: a line that is thin, dashed or dotted, a port that is filled or not.
function lookOf(one) {
  const state = one.stuck ? 'stuck' : one.state === 'attached' ? 'attached'
    : one.state === 'reserved' ? 'reserved' : 'moving';
  return `${one.mode || 'no-mode'} ${state}`;
}

function said(one) {
  if (!one.attachment) return NO_ATTACHMENTS;
  return [one.stuck ? '⚠' : '', one.mode || 'no mode', one.state,
          one.age === null ? '' : inWords(one.age), one.stuck]
    .filter(Boolean).join(' · ').replace('⚠ · ', '⚠ ');
}

function spoken(one) {
  if (!one.attachment) return NO_ATTACHMENTS;
  return `${one.host}, ${one.server ? `server ${one.server}` : 'no server'}, ` +
    `${one.mode || 'no mode'}, ${one.state}${one.stuck ? `, stuck, ${one.stuck}` : ''}`;
}
