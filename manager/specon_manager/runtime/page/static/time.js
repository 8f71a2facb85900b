// Ages that go on between two pictures: the manager's clock, carried on by the browser's.

import { setText } from "./dom.js";
import { span } from "./words.js";

let managerNow = 0;
let takenAt = 0;
let stopped = false;

export function setNow(now) {
  managerNow = now;
  takenAt = performance.now();
}

export function stopTime() {
  managerNow = now();
  stopped = true;
}

export function startTime() {
  stopped = false;
}

export const now = () => (stopped ? managerNow : managerNow + (performance.now() - takenAt) / 1000);

/** A time in ISO 8601 as the manager's clock has it. */
export const seconds = (iso) => Date.parse(iso) / 1000;

/** Has the element say how long ago `since` is, with `before` and `after` around it. */
export function setAge(node, since, before = "", after = "") {
  node.dataset.since = since;
  node.dataset.before = before;
  node.dataset.after = after;
  tell(node);
}

function tell(node) {
  setText(node, `${node.dataset.before}${span(now() - Number(node.dataset.since))}${node.dataset.after}`);
}

setInterval(() => {
  if (stopped || document.hidden) return;
  for (const node of document.querySelectorAll("[data-since]")) tell(node);
}, 1000);
