// The figures on top, and the words, which are legend and filter in one.

import { byId, element, keyed, setText } from "./dom.js";
import { WORDS, meaning, nounFor, sign } from "./words.js";

export function showSummary(view, filter, changed) {
  const { counts } = view;
  const active = counts.jobs - counts.jobs_ended;
  const figures = [
    [nounFor(counts.nodes, "node"), counts.nodes, ""],
    [nounFor(active, "job"), active, counts.jobs_ended ? `${counts.jobs_ended} ended` : ""],
    ["waiting", counts.waiting, ""],
    [nounFor(counts.moves_in_flight, "move in flight", "moves in flight"), counts.moves_in_flight, counts.requests ? `${counts.requests} queued` : ""],
    ...(counts.changes_in_flight ? [[nounFor(counts.changes_in_flight, "change in flight", "changes in flight"), counts.changes_in_flight, ""]] : []),
    ...(counts.stuck ? [["stuck", counts.stuck, ""]] : []),
    [nounFor(counts.moves.Succeeded, "move done", "moves done"), counts.moves.Succeeded, troubles(counts.moves)],
  ];
  keyed(
    byId("figures"),
    figures,
    (figure) => figure[0],
    (figure) => element("li", {}, element("b"), element("span", { class: "of" }, figure[0]), element("small")),
    (node, [, count, beside]) => {
      setText(node.querySelector("b"), count.toLocaleString("en"));
      setText(node.querySelector("small"), beside);
    },
  );
  const present = WORDS.filter((word) => counts.words[word] || filter.has(word));
  keyed(
    byId("words"),
    present.map((word) => ({ word, count: counts.words[word] ?? 0, pressed: filter.has(word) })),
    (item) => item.word,
    ({ word }) => {
      const button = element(
        "button",
        { type: "button", class: "chip", title: meaning(word) },
        sign(word),
        element("span", {}, word.toLowerCase()),
        element("b"),
      );
      button.addEventListener("click", () => {
        if (!filter.delete(word)) filter.add(word);
        changed();
      });
      return button;
    },
    (node, { count, pressed }) => {
      setText(node.querySelector("b"), count.toLocaleString("en"));
      node.setAttribute("aria-pressed", String(pressed));
    },
  );
}

function troubles(moves) {
  const said = [];
  if (moves.RolledBack) said.push(`${moves.RolledBack} rolled back`);
  if (moves.Failed) said.push(`${moves.Failed} failed`);
  if (moves.Refused) said.push(`${moves.Refused} refused`);
  return said.join(", ");
}
