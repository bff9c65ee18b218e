// Where things of the graph are: hosts on the left, volumes in the middle with a line for each
// attachment, servers on the right. Pure: values in, values out.

export const HEAD = 28;
export const LINE = 20;
export const NODE = 30;
const FOOT = 6;
// Pixels of a letter in the smaller of the two sizes, the widest that is used.
const SMALL = 6.9;
const GAP = 12;
const TOP = 30;
const NARROW = 720;
// Of one volume; the rest is said in a line.
const MOST_LINES = 24;

// Volumes in the order of their rows, from the first that is to be drawn; how many there are in all.
export function grouped(rows, first, most) {
  const groups = new Map();
  for (const one of rows) {
    if (!groups.has(one.volumeId)) groups.set(one.volumeId, []);
    groups.get(one.volumeId).push(one);
  }
  // Some may have gone since: the last ones are drawn then.
  const last = Math.max(0, Math.floor((groups.size - 1) / most) * most);
  const begin = Math.min(Math.max(0, first), last);
  return {groups: near([...groups.values()].slice(begin, begin + most)), first: begin,
          all: groups.size};
}

// What is stuck stays first; the others go by their hosts, so that fewer lines cross.
function near(groups) {
  const key = (lined) => lined.some((one) => one.stuck) ? '0'
    : lined[0].attachment ? `1${lined.map((one) => one.host).sort()[0]}` : '2';
  return groups.map((lined) => ({key: key(lined), lined}))
    .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)).map((found) => found.lined);
}

export function columns(width) {
  if (width < NARROW) {
    const hosts = Math.round(Math.max(92, width * 0.29));
    return {host: [1, hosts], volume: [hosts + 40, width - hosts - 42], server: null};
  }
  const side = Math.round(Math.min(230, width * 0.2));
  const middle = Math.round(Math.min(400, width * 0.36));
  return {host: [1, side], volume: [Math.round((width - middle) / 2), middle],
          server: [width - side - 1, side]};
}

// Cards, nodes and edges with their places, and the height of all.
export function placed(groups, width) {
  const at = columns(width);
  const cards = [];
  const ends = {host: new Map(), server: new Map()};
  let y = TOP;
  for (const lined of groups) {
    const lines = lined.slice(0, MOST_LINES).map(
      (one, number) => ({one, y: y + HEAD + LINE * (number + 0.5)}));
    const rest = lined.length - lines.length;
    const height = HEAD + LINE * (lines.length + (rest ? 1 : 0)) + FOOT;
    cards.push({lined, lines, rest, y, height});
    y += height + GAP;
    for (const line of lines) {
      collect(ends.host, line.one.host, line);
      if (at.server) collect(ends.server, line.one.server, line);
    }
  }
  const nodes = {host: spread(ends.host), server: spread(ends.server)};
  const bottom = [y, ...Object.values(nodes).flat().map((node) => node.y + NODE)];
  return {at, cards, nodes, height: Math.max(...bottom) + 2};
}

function collect(ends, name, line) {
  if (!name) return;
  if (!ends.has(name)) ends.set(name, []);
  ends.get(name).push(line);
}

// Each at the height of what it is joined with, but none upon another.
function spread(ends) {
  const nodes = [...ends].map(([name, lines]) => ({
    name, lines, y: lines.reduce((sum, line) => sum + line.y, 0) / lines.length - NODE / 2}));
  nodes.sort((a, b) => a.y - b.y || (a.name < b.name ? -1 : 1));
  let free = TOP;
  for (const node of nodes) {
    node.y = Math.max(node.y, free);
    free = node.y + NODE + 8;
  }
  return nodes;
}

export function curve(x1, y1, x2, y2) {
  const bend = (x2 - x1) / 2;
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

// A text in one line, in two smaller ones, or cut, as a width holds it.
export function folded(text, width, letter) {
  if (text.length * letter <= width) return [text];
  const half = Math.ceil(text.length / 2);
  if (half * SMALL > width) return [fit(text, width, letter)];
  // Behind a hyphen, where there is one in the middle.
  const hyphen = text.lastIndexOf('-', half) + 1;
  const cut = hyphen && (text.length - hyphen) * SMALL <= width ? hyphen : half;
  return [text.slice(0, cut), text.slice(cut)];
}

// As much of a text as a width holds, at so many pixels a letter.
export function fit(text, width, letter = 7.2) {
  const most = Math.max(3, Math.floor(width / letter));
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
