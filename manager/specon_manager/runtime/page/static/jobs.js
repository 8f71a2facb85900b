// The table of jobs: one row each, opened for its large curve and for everything that is known of it. A job of several
// replicas opens to a row for each of them.

import { arrows, byId, element, keyed, leftOut, reachScrolls, setText, show } from "./dom.js";
import { chart, spoken } from "./chart.js";
import { grouped, unfolded } from "./gangs.js";
import { logOf } from "./log.js";
import { setAge } from "./time.js";
import { WORDS, formatCount, meaning, number, percent, sign, span, wordWithSign } from "./words.js";

const SPARK = { width: 132, height: 30, margin: { left: 3, right: 5, top: 4, bottom: 4 } };
const PHONE = 560; // pixels of width, below which the words of a large curve would be too small
const LARGE = { width: 640, height: 190, margin: { left: 62, right: 12, top: 10, bottom: 22 }, labels: true };

const MANY = 30; // rows, from which on the table scrolls by itself
const COLUMNS = [
  ["job", "Job", (row) => row.label],
  ["node", "Node", (row) => row.node ?? ""],
  ["state", "State", (row) => WORDS.indexOf(row.word)],
  ["curve", "Curve", null],
  ["value", "Metric", (row) => (typeof row.value === "number" ? row.value : Infinity), true],
  ["gain", "Gain", (row) => (typeof row.gain === "number" ? -row.gain : Infinity), true],
  ["step", "Step", (row) => (row.step === null ? 1 : -row.step), true],
  ["moves", "Moves", (row) => -row.moves, true],
];

const open = new Set();
let sorting = null;
let falling = false;
let shown = null;
let settle = () => {};
let redraw = () => {};

export function prepareJobs(changed) {
  redraw = changed;
  for (const [id, title, by, numeric] of COLUMNS) {
    const head = element("th", { scope: "col", role: "columnheader", class: numeric ? "number" : null, "data-column": id });
    if (by) {
      const button = element("button", { type: "button" }, title, element("span", { class: "order", "aria-hidden": "true" }));
      button.addEventListener("click", () => {
        if (sorting === id && falling) [sorting, falling] = [null, false];
        else if (sorting === id) falling = true;
        else [sorting, falling] = [id, false];
        changed();
      });
      head.append(button);
    } else {
      head.append(title);
    }
    byId("columns").append(head);
  }
  settle = arrows(byId("jobs"), "tbody .opener", { forward: ["ArrowDown"], back: ["ArrowUp"] });
  byId("search").addEventListener("input", changed);
  byId("jobs").addEventListener("keydown", (event) => {
    const body = event.target.closest("tbody");
    if (event.key !== "Escape" || !body || !open.has(body.dataset.name)) return;
    toggle(body);
    body.querySelector(".opener").focus();
  });
}

/** Opens a row and goes there: from a node's chip. */
export function openJob(name) {
  const find = () => [...byId("jobs").tBodies].find((each) => each.dataset.name === name);
  if (!find()) {
    const row = shown.replicas.find((each) => each.name === name);
    if (!row) return;
    open.add(row.job);
    redraw();
  }
  const body = find();
  if (!body) return;
  if (!open.has(name)) toggle(body);
  body.querySelector(".opener").focus();
  body.scrollIntoView({ block: "nearest" });
}

export function showJobs(view, filter) {
  shown = view;
  const wanted = byId("search").value.trim().toLowerCase();
  const rows = view.replicas.filter(
    (row) => (!filter.size || filter.has(row.word)) && (!wanted || `${row.label} ${row.node ?? ""}`.toLowerCase().includes(wanted)),
  );
  let items = grouped(rows, view.replicas);
  const column = COLUMNS.find(([id]) => id === sorting);
  if (column) {
    const by = column[2];
    const order = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b || 0);
    items = items.map((item, index) => [item, index]);
    items.sort(([a, i], [b, j]) => (falling ? -1 : 1) * order(by(a.row), by(b.row)) || i - j);
    items = items.map(([item]) => item);
  }
  for (const head of byId("columns").children) {
    const here = head.dataset.column === sorting;
    if (here) head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
    const mark = head.querySelector(".order");
    if (mark) setText(mark, here ? (falling ? " ▾" : " ▴") : "");
  }
  items = unfolded(items, open);
  keyed(byId("jobs"), items, (item) => item.name, makeRow, updateRow);
  byId("jobs").parentElement.classList.toggle("many", items.length > MANY);
  show(byId("jobs-none"), items.length === 0);
  setText(byId("jobs-none"), view.replicas.length ? "None that is looked for." : "No jobs yet.");
  leftOut("jobs-left", view.left_out.replicas, "replicas, less interesting than these");
  settle();
}

function makeRow(item) {
  const body = element("tbody", { role: "rowgroup", class: item.of ? "member" : null, "data-name": item.name });
  const opener = element("button", { type: "button", class: "opener", "aria-expanded": "false", tabindex: "-1" });
  opener.append(element("span", { class: "turn", "aria-hidden": "true" }, "▸"), element("span", { class: "label" }));
  if (item.members) opener.append(element("span", { class: "size" }));
  const cell = ([id, title, , numeric]) =>
    element("td", { role: "cell", class: numeric ? `number in-${id}` : `in-${id}`, "data-title": title });
  body.append(
    element("tr", { class: "row", role: "row" }, element("th", { scope: "row", role: "rowheader" }, opener), ...COLUMNS.slice(1).map(cell)),
  );
  body.firstChild.addEventListener("click", () => toggle(body));
  return body;
}

function updateRow(body, { name, row, members }) {
  const cell = (column) => body.querySelector(`.row .in-${column}`);
  setText(body.querySelector(".label"), row.label);
  setText(cell("node"), row.active ? row.node : "");
  cell("state").replaceChildren(...(members && row.words.length > 1 ? row.words.map(counted) : [wordWithSign(row.word)]));
  cell("curve").replaceChildren(chart(row, SPARK));
  setText(cell("value"), number(row.value));
  cell("value").title = row.metric ?? "";
  setText(cell("gain"), percent(row.gain));
  cell("step").replaceChildren(steps(row));
  setText(cell("moves"), row.moves ? String(row.moves) : "");
  body.classList.toggle("over", row.word === "Succeeded" || row.word === "Failed");
  body.querySelector(".opener").setAttribute("aria-expanded", String(open.has(name)));
  if (members) setText(body.querySelector(".size"), formatCount(members.length, "replica"));
  else if (open.has(name)) detail(body, row);
}

const counted = ([word, count]) => element("span", { class: "word", title: meaning(word) }, sign(word), `${count} ${word.toLowerCase()}`);

function steps(row) {
  if (row.step === null) return "";
  const said = row.total ? `${row.step} / ${row.total}` : String(row.step);
  const part = element("span", { class: "steps" }, said);
  if (row.total) {
    const bar = element("span", { class: "meter", "aria-hidden": "true" }, element("i"));
    bar.firstChild.style.width = `${Math.min(100, Math.max(0, (100 * row.step) / row.total))}%`;
    part.append(bar);
  }
  return part;
}

function toggle(body) {
  const { name } = body.dataset;
  const opened = !open.delete(name);
  if (opened) open.add(name);
  body.querySelector(".opener").setAttribute("aria-expanded", String(opened));
  const row = shown.replicas.find((each) => each.name === name);
  if (!row) redraw(); // a job of several replicas: they come, or go
  else if (opened) detail(body, row);
  else body.querySelector(".detail")?.remove();
  reachScrolls();
}

function detail(body, row) {
  let place = body.querySelector(".detail");
  if (!place) {
    const cell = element("td", { role: "cell", colspan: COLUMNS.length }, element("div", { class: "inside" }), logOf(row.name));
    place = element("tr", { class: "detail", role: "row" }, cell);
    body.append(place);
  }
  const facts = element("dl", {});
  const fact = (term, said) => {
    if (said !== null && said !== "") facts.append(element("div", {}, element("dt", {}, term), element("dd", {}, said)));
  };
  fact("Replica", row.name);
  fact("State", `${row.word.toLowerCase()}: ${row.reason || meaning(row.word)}`);
  fact("Since", aged(row.since, " ago"));
  fact("Last report", aged(row.heard, " ago"));
  fact("Still to come", row.remaining === null ? "" : `about ${span(row.remaining)}`);
  fact("Checkpoint", row.checkpoint === null ? "none is known" : `step ${row.checkpoint[0]}${row.checkpoint[1] ? ", verified" : ", not verified yet"}`);
  fact("Moves", `${row.moves} succeeded${row.attempts ? `, ${row.attempts} since then did not` : ""}`);
  if (row.workers) {
    const [now, few, most] = row.workers;
    fact("Workers of its job", few === most ? `${now} of ${most}` : `${now}, of ${few} to ${most}`);
  }
  fact("Crashes", row.crashes ? String(row.crashes) : "");
  fact("Not moved because", row.immovable);
  fact("Last note", row.note);
  const said = shown.decisions.filter((decision) => decision.about === row.name || decision.about === row.job);
  if (said.length) {
    const one = said[0];
    fact("Last decision", `${one.proposal}, ${one.refusal ? `refused (${one.refusal})` : "ordered"}: ${one.reason}`);
  }
  const figure = element("figure", {}, element("figcaption", {}, spoken(row)), chart(row, innerWidth < PHONE ? { ...LARGE, width: 340 } : LARGE));
  place.querySelector(".inside").replaceChildren(figure, facts);
}

function aged(since, after) {
  if (since === null) return "";
  const place = element("span", {});
  setAge(place, since, "", after);
  return place;
}
