// Moves and changes in flight, waiting jobs, decisions and their reasons.

import { byId, element, keyed, leftOut, setText, show } from "./dom.js";
import { seconds, setAge } from "./time.js";
import { formatCount, measured, span } from "./words.js";

const MARKS = { Succeeded: "✓", RolledBack: "↩", Failed: "✕", Refused: "⊘" };

const nodes = (names) => names?.replaceAll(",", ", ") ?? "?";

/** What a transaction changes, in a few words. */
function way(row) {
  if (row.kind === "move" && row.attempt > 1) return `${row.replica === null ? "all of it " : ""}back to ${nodes(row.source)}`;
  if (row.kind === "admit") return `admitted with ${formatCount(row.workers_after, "worker")}`;
  if (row.kind === "preempt") return row.beneficiary ? `preempted for ${row.beneficiary.replace(/^default\//, "")}` : "preempted";
  if (row.kind === "put-back") return "put back as a whole";
  if (row.kind === "move") return row.what.replace("->", "→");
  return `${row.kind}: ${row.workers_before} → ${formatCount(row.workers_after, "worker")}`;
}

/** An empty list says so; the line is no item of the list for `keyed`. */
function listed(id, items, keyOf, make, update, nothing) {
  const list = byId(id);
  keyed(list, items.length ? items : [{ nothing }], (item) => (item.nothing ? "" : keyOf(item)), (item) =>
    item.nothing ? element("li", { class: "none" }, item.nothing) : make(item), (node, item) => {
      if (!item.nothing) update(node, item);
    });
}

export function showTransactions(view) {
  const track = (row) => view.tracks[row.attempt === 1 ? row.kind : "back"];
  // What turns back passes through other states: it is made anew.
  listed("moves", view.transactions, (row) => `${row.id} ${row.attempt}`, (row) => makeFlying(track(row)), updateFlying, "Nothing is being moved or changed.");
  show(byId("requests-title"), view.requests.length > 0);
  keyed(byId("requests"), view.requests, (row) => row.id, makeOver, updateQueued);
  listed("ended", view.ended, (row) => row.id, makeOver, updateEnded, "None yet.");
  leftOut("moves-left", view.left_out.transactions, "in flight");
  leftOut("requests-left", view.left_out.requests, "that wait");
  leftOut("ended-left", view.left_out.ended, "that ended before");
}

function makeFlying(track) {
  return element(
    "li",
    { class: "move" },
    element("p", { class: "what" }, element("b"), element("span", { class: "way" })),
    element("ol", { class: "track" }, ...track.map(([state, word]) => element("li", { "data-state": state }, element("span", {}, word)))),
    element("p", { class: "now" }, element("b"), " ", element("span")),
    element("p", { class: "stuck", hidden: true }),
    element("p", { class: "why" }),
  );
}

function updateFlying(node, row) {
  setText(node.querySelector(".what b"), row.label);
  setText(node.querySelector(".way"), way(row));
  const steps = [...node.querySelectorAll(".track li")];
  const reached = steps.findIndex((step) => step.dataset.state === row.state);
  for (const [index, step] of steps.entries()) {
    step.className = index < reached ? "done" : index === reached ? "here" : "";
    if (index === reached) step.setAttribute("aria-current", "step");
    else step.removeAttribute("aria-current");
  }
  setText(node.querySelector(".now b"), row.word);
  const waits = row.awaited ? ` · waits for ${row.awaited}` : "";
  setAge(node.querySelector(".now span"), seconds(row.proposed_at), "· begun ", ` ago${row.attempt === 1 ? "" : " · second attempt"}${waits}`);
  show(node.querySelector(".stuck"), row.stuck !== "");
  setText(node.querySelector(".stuck"), `Stuck: ${row.stuck}`);
  setText(node.querySelector(".why"), row.reason);
}

function makeOver() {
  return element(
    "li",
    {},
    element("p", { class: "what" }, element("span", { class: "outcome" }), element("b"), element("span", { class: "way" })),
    element("p", { class: "cost" }),
  );
}

function updateQueued(node, row) {
  setText(node.querySelector("b"), row.label);
  setText(node.querySelector(".way"), `${row.replica === null ? "all of it " : ""}→ ${row.target === null ? "wherever there is room" : nodes(row.target)}`);
  setAge(node.querySelector(".cost"), seconds(row.proposed_at), `${row.word} · waits: ${row.awaited} · asked for `, " ago");
  node.title = row.reason;
}

function updateEnded(node, row) {
  const outcome = node.querySelector(".outcome");
  outcome.className = `outcome ended-${row.state.toLowerCase()}`;
  outcome.replaceChildren(element("span", { "aria-hidden": "true" }, MARKS[row.state] ?? ""), element("span", { class: "unseen" }, `${row.word}: `));
  setText(node.querySelector("b"), row.label);
  setText(node.querySelector(".way"), way({ ...row, attempt: 1 }));
  const facts = [row.word];
  if (row.downtime_seconds !== null) facts.push(`downtime ${measured(row.downtime_seconds)}`);
  if (row.steps_lost !== null) facts.push(row.steps_lost === 0 ? "no step lost" : `${row.steps_lost} steps lost`);
  if (row.killed) facts.push(`${row.killed} killed`);
  if (row.note) facts.push(row.note);
  setAge(node.querySelector(".cost"), seconds(row.ended_at ?? row.proposed_at), `${facts.join(" · ")} · `, " ago");
  node.title = row.reason;
}

const expected = ([first, earliest, latest]) =>
  latest === undefined ? `starts after ${span(first)}` : `starts in ${span(first)} (${span(earliest)} to ${span(latest)})`;

export function showQueue(view) {
  listed(
    "queue",
    view.queue,
    (job) => job.job,
    () => element("li", {}, element("p", { class: "what" }, element("b"), element("span", { class: "way" })), element("p", { class: "cost" })),
    (node, job) => {
      setText(node.querySelector("b"), job.label);
      setAge(node.querySelector(".way"), job.since, "for ");
      const facts = [formatCount(job.workers, "worker"), job.class];
      if (job.queue) facts.push(`queue ${job.queue}`);
      if (job.position !== null) facts.push(`position ${job.position}`);
      if (job.starts) facts.push(expected(job.starts));
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
    (decision) => `${decision.at} ${decision.about} ${decision.proposal} ${decision.refusal}`,
    (decision) =>
      element(
        "li",
        { class: decision.refusal ? "refused" : null },
        element("p", { class: "what" }, element("b", {}, decision.label), element("span", { class: "way" })),
        element("p", { class: "verdict" }, decision.refusal ? `${decision.proposal}: refused (${decision.refusal})` : decision.proposal),
        element("p", { class: "why" }, decision.reason),
      ),
    (node, decision) => setAge(node.querySelector(".way"), seconds(decision.at), "", ` ago, ${decision.policy}`),
    view.decisions.length ? "Only refusals: tick the box to see them." : "Nothing was decided yet.",
  );
  leftOut("decisions-left", view.left_out.decisions, "before these");
}

/** What has changed since the last picture and is worth a word to those who listen to the page. */
export function news(before, after) {
  const said = [];
  const known = new Map(before.transactions.map((row) => [row.id, row]));
  for (const row of after.transactions) {
    const former = known.get(row.id);
    const whole = row.replica === null ? " as a whole" : "";
    if (!former && row.kind === "move") said.push(`${row.label} is being moved${whole} from ${nodes(row.source)} to ${nodes(row.target)}.`);
    else if (!former) said.push(`${row.label} is being changed: ${way(row)}.`);
    if (row.stuck && !former?.stuck) said.push(`The change of ${row.label} is stuck: ${row.stuck}.`);
  }
  const ended = new Set(before.ended.map((row) => row.id));
  for (const row of after.ended) {
    if (ended.has(row.id)) continue;
    const downtime = row.downtime_seconds === null ? "" : `, downtime ${measured(row.downtime_seconds)}`;
    const subject = row.kind === "move" ? `The move of ${row.label}` : `The change of ${row.label} (${way(row)})`;
    said.push(`${subject} ${row.state === "Succeeded" || row.state === "Failed" ? "" : "was "}${row.word}${downtime}.`);
  }
  return said.slice(0, 3).join(" ");
}
