// Nodes with the replicas that run on them or are on their way; of many nodes only how many replicas of which kind.

import { arrows, byId, element, keyed, leftOut, setText } from "./dom.js";
import { WORDS, bytes, className, meaning, number, sign } from "./words.js";

const MOST_WITH_CHIPS = 48;
const MOST_CHIPS = 40;

let settle = () => {};

export function prepareNodes(opened) {
  settle = arrows(byId("nodes"), "button", {
    forward: ["ArrowRight", "ArrowDown"],
    back: ["ArrowLeft", "ArrowUp"],
  });
  byId("nodes").addEventListener("click", (event) => {
    const chip = event.target.closest("button[data-replica]");
    if (chip) opened(chip.dataset.replica);
  });
}

export function showNodes(view) {
  const here = new Map(view.nodes.map((node) => [node.name, []]));
  for (const row of view.replicas) {
    if (row.active && here.has(row.node)) here.get(row.node).push({ name: row.name, label: row.label, word: row.word });
  }
  const shown = new Map(view.replicas.map((row) => [row.name, row.label]));
  for (const move of view.transactions) {
    // Of a job that moves as a whole each replica has its way; of any other change it is not in the row.
    const ways = move.replica === null ? move.ways : [move];
    for (const way of ways) {
      const destination = move.attempt === 1 ? way.target : way.source;
      const there = here.get(destination);
      if (there && !there.some((chip) => chip.name === way.replica)) {
        there.push({ name: way.replica, label: way.label ?? shown.get(way.replica) ?? way.replica, word: move.word, arriving: true });
      }
      const chip = here.get(way.source)?.find((each) => each.name === way.replica && !each.arriving);
      if (chip && move.attempt === 1 && way.source !== way.target) chip.leaving = true;
    }
  }
  const chips = view.nodes.length <= MOST_WITH_CHIPS;
  byId("nodes").classList.toggle("compact", !chips);
  keyed(
    byId("nodes"),
    view.nodes.map((node) => ({ ...node, chips: chips ? here.get(node.name).slice(0, MOST_CHIPS) : [] })),
    (node) => node.name,
    makeNode,
    updateNode,
  );
  leftOut("nodes-left", view.left_out.nodes, "nodes");
  settle();
}

function makeNode(node) {
  return element(
    "li",
    { class: "node" },
    element("h3", {}, element("span", { class: "name" }, node.name), element("span", { class: "flag" })),
    element("div", { class: "meter", "aria-hidden": "true" }, element("i")),
    element("p", { class: "use" }),
    element("ul", { class: "chips" }),
    element("div", { class: "stack", "aria-hidden": "true" }),
    element("p", { class: "total" }),
  );
}

function updateNode(card, node) {
  const [used, cores] = node.cpu;
  const share = cores > 0 && typeof used === "number" ? Math.min(1, used / cores) : 0;
  card.classList.toggle("away", !node.ready);
  setText(card.querySelector(".flag"), node.ready ? "" : "not ready");
  card.querySelector(".meter i").style.width = `${(100 * share).toFixed(0)}%`;
  const parts = [`CPU ${(100 * share).toFixed(0)} % of ${number(cores).replace(/\.?0+$/, "")}`];
  if (node.memory[1] > 0) parts.push(`memory ${bytes(node.memory[0])} of ${bytes(node.memory[1])}`);
  if (node.gpu) parts.push(`${node.gpu} GPU${node.accelerator ? ` ${node.accelerator}` : ""}`);
  setText(card.querySelector(".use"), parts.join(" · "));
  keyed(card.querySelector(".chips"), node.chips, (chip) => `${chip.name} ${chip.arriving ?? ""}`, makeChip, updateChip);
  const words = WORDS.filter((word) => node.counts[word]);
  const total = words.reduce((sum, word) => sum + node.counts[word], 0);
  const shown = node.chips.filter((chip) => !chip.arriving).length;
  const stack = card.querySelector(".stack");
  stack.hidden = shown === total;
  if (!stack.hidden) {
    stack.replaceChildren(
      ...words.map((word) => {
        const bar = element("i", { class: className(word), title: `${node.counts[word]} ${meaning(word)}` });
        bar.style.flexGrow = String(node.counts[word]);
        return bar;
      }),
    );
  }
  const counted = words.map((word) => `${node.counts[word]} ${word.toLowerCase()}`).join(", ");
  const empty = node.chips.length ? "" : "nothing runs here";
  setText(card.querySelector(".total"), total === 0 ? empty : shown === total ? "" : counted);
}

function makeChip(chip) {
  return element("li", {}, element("button", { type: "button", class: "chip", tabindex: "-1", "data-replica": chip.name }));
}

function updateChip(item, chip) {
  const button = item.firstChild;
  const state = chip.arriving ? `arriving, ${chip.word.toLowerCase()}` : chip.leaving ? `${chip.word.toLowerCase()}, being moved away` : chip.word.toLowerCase();
  button.className = `chip${chip.arriving ? " arriving" : ""}${chip.leaving ? " leaving" : ""}`;
  button.title = state;
  button.replaceChildren(
    chip.arriving ? element("span", { class: "arrow", "aria-hidden": "true" }, "→") : sign(chip.word),
    element("span", {}, chip.label),
    element("span", { class: "unseen" }, `, ${state}`),
  );
}
