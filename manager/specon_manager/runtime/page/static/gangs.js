// Jobs of several replicas: one item for the job, and one for each replica while that is opened.

import { WORDS, formatCount } from "./words.js";

const plain = (name) => name.replace(/^default\//, "");

/** Items for the table: `{name, row}` of a replica, `{name, row, members}` of a job that has several. */
export function grouped(rows, all) {
  const sizes = new Map();
  for (const row of all) sizes.set(row.job, (sizes.get(row.job) ?? 0) + 1);
  const jobs = new Map();
  const items = [];
  for (const row of rows) {
    if (sizes.get(row.job) < 2) {
      items.push({ name: row.name, row });
      continue;
    }
    const known = jobs.get(row.job);
    if (known) {
      known.members.push(row);
      continue;
    }
    const item = { name: row.job, row, members: [row] };
    jobs.set(row.job, item);
    items.push(item);
  }
  for (const item of jobs.values()) item.row = standing(item);
  return items;
}

/** The items with the replicas of each job that is open below it. */
export const unfolded = (items, open) =>
  items.flatMap((item) => [
    item,
    ...(item.members && open.has(item.name) ? item.members.map((row) => member(row, item.name)) : []),
  ]);

/** A replica below its job: what its name says beyond the job's. */
const member = (row, job) => ({ name: row.name, of: job, row: { ...row, label: row.label.replace(`${plain(job)}/`, "") } });

/** A row for the job as a whole: the numbers of the replica that says most, the nodes and moves of all. */
function standing({ name, members }) {
  const lead = members.find((row) => row.curve.length > 1) ?? members.find((row) => row.active) ?? members[0];
  const nodes = [...new Set(members.filter((row) => row.active && row.node).map((row) => row.node))];
  return {
    ...lead,
    label: plain(name),
    node: nodes.length > 2 ? formatCount(nodes.length, "node") : nodes.join(", "),
    active: nodes.length > 0,
    // Replicas of a job that moves as a whole move together.
    moves: Math.max(...members.map((row) => row.moves)),
    words: counted(members),
  };
}

function counted(members) {
  const found = WORDS.map((word) => [word, members.filter((row) => row.word === word).length]);
  return found.filter(([, count]) => count);
}
