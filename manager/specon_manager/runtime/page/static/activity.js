// Moves in flight and ended, who waits, what was decided and why.

import { byId, element, keyed, leftOut, setText } from "./dom.js";
import { setAge } from "./time.js";
import { span } from "./words.js";

const STATES = ["Proposed", "Reserved", "Checkpointing", "Evicting", "Restoring", "Verifying"];
const OUTCOMES = { Succeeded: ["✓", "succeeded"], RolledBack: ["↩", "rolled back"], Failed: ["✕", "failed"] };

/** An empty list says so; the line is no item of the list for `keyed`. */
function listed(id, items, keyOf, make, update, nothing) {
  const list = byId(id);
  keyed(list, items.length ? items : [{ nothing }], (item) => (item.nothing ? "" : keyOf(item)), (item) =>
    item.nothing ? element("li", { class: "none" }, item.nothing) : make(item), (node, item) => {
      if (!item.nothing) update(node, item);
    });
}

export function showMoves(view) {
  listed("moves", view.moves, (move) => move.id, makeMove, updateMove, "Nothing is being moved.");
  listed("ended", view.ended, (move) => move.id, makeEnded, updateEnded, "None yet.");
  leftOut("moves-left", view.left_out.moves, "moves");
  leftOut("ended-left", view.left_out.ended, "that ended before");
}

function makeMove() {
  return element(
    "li",
    { class: "move" },
    element("p", { class: "what" }, element("b"), element("span", { class: "way" })),
    element("ol", { class: "track" }, ...STATES.map((state) => element("li", { "data-state": state }, element("span", {}, state)))),
    element("p", { class: "now" }, element("b"), " ", element("span")),
    element("p", { class: "why" }),
  );
}

function updateMove(node, move) {
  setText(node.querySelector(".what b"), move.label);
  setText(node.querySelector(".way"), move.attempt === 1 ? `${move.source} → ${move.target}` : `back to ${move.source}`);
  const reached = STATES.indexOf(move.state);
  for (const [index, step] of [...node.querySelectorAll(".track li")].entries()) {
    step.className = index < reached ? "done" : index === reached ? "here" : "";
    if (index === reached) step.setAttribute("aria-current", "step");
    else step.removeAttribute("aria-current");
  }
  setText(node.querySelector(".now b"), move.state.toLowerCase());
  setAge(node.querySelector(".now span"), move.since, "· begun ", ` ago${move.attempt === 1 ? "" : " · second attempt"}`);
  setText(node.querySelector(".why"), move.reason);
}

function makeEnded() {
  return element(
    "li",
    {},
    element("p", { class: "what" }, element("span", { class: "outcome" }), element("b"), element("span", { class: "way" })),
    element("p", { class: "cost" }),
  );
}

function updateEnded(node, move) {
  const [mark, word] = OUTCOMES[move.state] ?? ["", move.state];
  const outcome = node.querySelector(".outcome");
  outcome.className = `outcome ended-${move.state.toLowerCase()}`;
  outcome.replaceChildren(element("span", { "aria-hidden": "true" }, mark), element("span", { class: "unseen" }, `${word}: `));
  setText(node.querySelector("b"), move.label);
  setText(node.querySelector(".way"), `${move.source} → ${move.target}`);
  const facts = [word];
  if (move.downtime !== null) facts.push(`downtime ${move.downtime.toFixed(1)} s`);
  if (move.steps_lost !== null) facts.push(move.steps_lost === 0 ? "no step lost" : `${move.steps_lost} steps lost`);
  if (move.note) facts.push(move.note);
  const cost = node.querySelector(".cost");
  setAge(cost, move.ended ?? move.since, `${facts.join(" · ")} · `, " ago");
  node.title = move.reason;
}

/** What a change does to a job, in a few words. */
function changeWay(change) {
  if (change.kind === "admit") return `admitted with ${change.after} ${change.after === 1 ? "worker" : "workers"}`;
  if (change.kind === "preempt") return change.for ? `preempted for ${change.for}` : "preempted";
  return `${change.kind}: ${change.before} → ${change.after} workers`;
}

export function showChanges(view) {
  const make = () =>
    element("li", {}, element("p", { class: "what" }, element("span", { class: "outcome" }), element("b"), element("span", { class: "way" })), element("p", { class: "cost" }), element("p", { class: "why" }));
  const update = (node, change) => {
    const [mark, word] = OUTCOMES[change.state] ?? ["", change.state.toLowerCase()];
    const outcome = node.querySelector(".outcome");
    outcome.className = change.ended === null ? "outcome" : `outcome ended-${change.state.toLowerCase()}`;
    outcome.replaceChildren(element("span", { "aria-hidden": "true" }, mark), element("span", { class: "unseen" }, `${word}: `));
    setText(node.querySelector("b"), change.label);
    setText(node.querySelector(".way"), changeWay(change));
    const facts = [word];
    if (change.ended === null && change.attempt > 1) facts.push("going back");
    if (change.downtime !== null) facts.push(`downtime ${change.downtime.toFixed(1)} s`);
    if (change.note) facts.push(change.note);
    setAge(node.querySelector(".cost"), change.ended ?? change.since, `${facts.join(" · ")} · `, " ago");
    setText(node.querySelector(".why"), change.reason);
  };
  listed("changes", view.changes, (change) => change.id, make, update, "No job is being changed.");
  listed("changed", view.changed, (change) => change.id, make, update, "None yet.");
  leftOut("changes-left", view.left_out.changes, "changes");
  leftOut("changed-left", view.left_out.changed, "that ended before");
}

export function showQueue(view) {
  listed(
    "queue",
    view.queue,
    (job) => job.job,
    () => element("li", {}, element("p", { class: "what" }, element("b"), element("span", { class: "way" })), element("p", { class: "cost" })),
    (node, job) => {
      setText(node.querySelector("b"), job.label);
      setAge(node.querySelector(".way"), job.since, "for ");
      const facts = [`${job.workers} ${job.workers === 1 ? "worker" : "workers"}`, job.class];
      if (job.queue) facts.push(`queue ${job.queue}`);
      if (job.position !== null) facts.push(`position ${job.position}`);
      if (job.kind !== null) facts.push(`${job.kind}: ${job.text}`);
      if (job.owned) facts.push("placed by the cluster's scheduler");
      if (job.claimed && job.kind === null) facts.push(`room is kept: ${job.claimed}`);
      setText(node.querySelector(".cost"), facts.join(" · "));
    },
    "Nobody waits.",
  );
  leftOut("queue-left", view.left_out.queue, "jobs");
}

export function showDecisions(view) {
  const refused = byId("refused").checked;
  const rows = view.decisions.filter((decision) => refused || !decision.refusal);
  listed(
    "decisions",
    rows,
    (decision) => `${decision.at} ${decision.replica} ${decision.proposal} ${decision.refusal}`,
    (decision) =>
      element(
        "li",
        { class: decision.refusal ? "refused" : null },
        element("p", { class: "what" }, element("b", {}, decision.label), element("span", { class: "way" })),
        element("p", { class: "verdict" }, decision.refusal ? `${decision.proposal}: refused (${decision.refusal})` : decision.proposal),
        element("p", { class: "why" }, decision.reason),
      ),
    (node, decision) => setAge(node.querySelector(".way"), decision.at, "", ` ago, ${decision.policy}`),
    view.decisions.length ? "Only refusals: tick the box to see them." : "Nothing was decided yet.",
  );
  leftOut("decisions-left", view.left_out.decisions, "before these");
}

/** What has changed since the last picture and is worth a word to those who listen to the page. */
export function news(before, after) {
  const said = [];
  const known = new Set(before.moves.map((move) => move.id));
  for (const move of after.moves) {
    if (!known.has(move.id)) said.push(`${move.label} is being moved from ${move.source} to ${move.target}.`);
  }
  const ended = new Set(before.ended.map((move) => move.id));
  for (const move of after.ended) {
    if (ended.has(move.id)) continue;
    const downtime = move.downtime === null ? "" : `, downtime ${span(move.downtime)}`;
    said.push(`The move of ${move.label} ${OUTCOMES[move.state]?.[1] ?? move.state}${downtime}.`);
  }
  const open = new Set(before.changes.map((change) => change.id));
  for (const change of after.changes) {
    if (!open.has(change.id)) said.push(`${change.label} is being changed: ${changeWay(change)}.`);
  }
  const over = new Set(before.changed.map((change) => change.id));
  for (const change of after.changed) {
    if (!over.has(change.id)) said.push(`The change of ${change.label} ${OUTCOMES[change.state]?.[1] ?? change.state}: ${changeWay(change)}.`);
  }
  return said.slice(0, 3).join(" ");
}
