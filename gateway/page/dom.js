// A view is a tree of plain values. Only what changed is drawn, so focus, scroll and selection stay. Data becomes text
// nodes and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "open", "hidden"]);

export function h(tag, attrs, ...kids) {
  return { tag, attrs: attrs || {}, kids: kids.flat(9).filter((kid) => kid != null && kid !== false && kid !== "") };
}

export function draw(parent, ...kids) {
  const active = document.activeElement;
  patch(parent, h("", null, kids).kids);
  if (active !== document.activeElement && active?.isConnected) active.focus({ preventScroll: true });
}

function patch(parent, kids) {
  const keyed = new Map();
  for (const node of parent.childNodes) if (node.mark?.key != null) keyed.set(node.mark.key, node);
  const wanted = new Set(kids.map((kid) => kid.attrs?.key));
  let cursor = parent.firstChild;
  const advance = () => {
    while (cursor?.mark?.key != null && !wanted.has(cursor.mark.key)) cursor = remove(cursor);
  };
  for (const kid of kids) {
    advance();
    const key = kid.attrs?.key;
    const found = key != null ? keyed.get(key) : cursor?.mark?.key == null ? cursor : null;
    const node = found && fits(found, kid) ? found : create(kid, parent);
    if (node === cursor) cursor = cursor.nextSibling;
    else parent.insertBefore(node, cursor);
    if (kid.tag) update(node, kid);
    else if (node.nodeValue !== String(kid)) node.nodeValue = String(kid);
  }
  while (cursor) cursor = remove(cursor);
}

function remove(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function fits(node, kid) {
  return kid.tag ? node.mark?.tag === kid.tag && node.mark.key === kid.attrs.key : node.nodeType === Node.TEXT_NODE;
}

function create(kid, parent) {
  if (!kid.tag) return document.createTextNode(String(kid));
  const svg = kid.tag === "svg" || parent.namespaceURI === SVG;
  const node = svg ? document.createElementNS(SVG, kid.tag) : document.createElement(kid.tag);
  node.mark = { tag: kid.tag, key: kid.attrs.key, attrs: {} };
  return node;
}

function update(node, { attrs, kids }) {
  const before = node.mark.attrs;
  for (const name of Object.keys(before)) if (!(name in attrs)) set(node, name, null, before[name]);
  for (const [name, value] of Object.entries(attrs)) {
    if (name === "style") restyle(node, value, before.style);
    else if (name !== "key" && before[name] !== value) set(node, name, value, before[name]);
  }
  node.mark.attrs = attrs;
  patch(node, kids);
}

function set(node, name, value, before) {
  if (name === "style") restyle(node, {}, before);
  else if (name.startsWith("on")) node[name] = value;
  else if (PROPERTIES.has(name) && name in node) node[name] = value ?? false;
  else if (value == null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

// Through the object model: the page's policy forbids style attributes.
function restyle(node, style, before = {}) {
  for (const name of Object.keys(before)) if (!(name in style)) node.style.removeProperty(name);
  for (const [name, value] of Object.entries(style)) if (before[name] !== value) node.style.setProperty(name, value);
}
