// Making and updating elements. Text is only ever set as text.

const SVG = "http://www.w3.org/2000/svg";

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

export const element = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

export const drawn = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

export const byId = (id) => document.getElementById(id);

/** Sets text only where it differs: text that is selected or read aloud stays undisturbed. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function show(node, shown) {
  if (node.hidden === shown) node.hidden = !shown;
}

/** What scrolls is reached by Tab, so that arrow keys move it; what does not is no stop on the way. */
export function reachScrolls() {
  for (const region of document.querySelectorAll(".scroll")) {
    const scrolls = region.scrollHeight > region.clientHeight + 1 || region.scrollWidth > region.clientWidth + 1;
    if (scrolls) region.tabIndex = 0;
    else if (document.activeElement !== region) region.removeAttribute("tabindex");
  }
}

/** A line below a list, about the entries left out of it. */
export function leftOut(id, count, what) {
  show(byId(id), count > 0);
  if (count > 0) setText(byId(id), `and ${count.toLocaleString("en")} more ${what}`);
}

/**
 * Makes the children of `parent` those of `items`, in their order. What has not changed is not touched, and an
 * element moves rather than being made again, so focus and scrolling stay where they are.
 */
export function keyed(parent, items, keyOf, make, update) {
  const known = parent.keyedChildren ?? (parent.keyedChildren = new Map());
  const held = document.activeElement;
  const unique = new Map(items.map((item) => [keyOf(item), item]));
  for (const [key, entry] of known) {
    if (unique.has(key)) continue;
    entry.node.remove();
    known.delete(key);
  }
  let place = parent.tBodies ? (parent.tBodies[0] ?? null) : parent.firstChild;
  for (const [key, item] of unique) {
    let entry = known.get(key);
    if (!entry) {
      entry = { node: make(item), said: "" };
      known.set(key, entry);
    }
    const said = JSON.stringify(item);
    if (said !== entry.said) {
      entry.said = said;
      update(entry.node, item);
    }
    if (entry.node === place) place = place.nextSibling;
    else parent.insertBefore(entry.node, place);
  }
  // An element that was put elsewhere has lost the focus.
  if (held !== document.activeElement && parent.contains(held)) held.focus({ preventScroll: true });
}

/** One stop of the Tab key for many buttons: the arrow keys go on from there. */
export function arrows(area, selector, { forward, back }) {
  const buttons = () => [...area.querySelectorAll(selector)].filter((button) => button.offsetParent);
  const settle = () => {
    const all = buttons();
    const held = all.find((button) => button === document.activeElement) ?? all.find((b) => b.tabIndex === 0);
    for (const button of all) button.tabIndex = button === (held ?? all[0]) ? 0 : -1;
  };
  area.addEventListener("focusin", settle);
  area.addEventListener("keydown", (event) => {
    const all = buttons();
    const here = all.indexOf(document.activeElement);
    if (here < 0) return;
    let next = null;
    if (forward.includes(event.key)) next = all[Math.min(here + 1, all.length - 1)];
    else if (back.includes(event.key)) next = all[Math.max(here - 1, 0)];
    else if (event.key === "Home") next = all[0];
    else if (event.key === "End") next = all[all.length - 1];
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
  return settle;
}
