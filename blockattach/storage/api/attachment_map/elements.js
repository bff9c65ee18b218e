// Parts of the page. Texts are only ever put in as texts: names of volumes are anybody's.

const SVG = 'http://www.w3.org/2000/svg';

export const byId = (id) => document.getElementById(id);

export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function drawn(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// Assistive technology announces a change, so nothing is written that is there already.
export function say(id, text) {
  const found = byId(id);
  if (found.textContent !== text) found.textContent = text;
  found.hidden = text === '';
}
