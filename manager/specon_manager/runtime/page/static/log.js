// The end of a job's log, asked for while its row is open.

import { element, reachScrolls, setText } from "./dom.js";

const AGAIN = 3000; // milliseconds between two looks at a log that is open

let bearer = "";

export function useToken(token) {
  bearer = token;
}

/** A place for the log of a replica; it looks again by itself for as long as it is part of the page. */
export function logOf(name) {
  const title = element("h4", {}, "Log");
  const where = element("code", { class: "path" });
  const note = element("p", { class: "hint" });
  const text = element("pre", {});
  const region = element("div", { class: "scroll lines", role: "region", "aria-label": `End of the log of ${name}`, hidden: true }, text);
  const place = element("section", { class: "log" }, element("p", { class: "head" }, title, where), note, region);
  const look = async () => {
    const tail = await asked(name);
    setText(where, tail.path);
    setText(note, tail.note || (tail.more ? `the last ${tail.lines.length} lines` : ""));
    note.hidden = !note.textContent;
    region.hidden = tail.lines.length === 0;
    const atEnd = region.scrollTop + region.clientHeight >= region.scrollHeight - 4;
    setText(text, tail.lines.join("\n"));
    if (atEnd) region.scrollTop = region.scrollHeight;
    reachScrolls();
  };
  const again = async () => {
    if (!place.isConnected) return;
    if (!document.hidden) await look();
    setTimeout(again, AGAIN);
  };
  setTimeout(again, 0);
  return place;
}

async function asked(name) {
  const nothing = { path: "", lines: [], more: false };
  try {
    const response = await fetch(`log?replica=${encodeURIComponent(name)}`, {
      headers: { Authorization: `Bearer ${bearer}` },
      cache: "no-store",
      credentials: "omit",
    });
    const answer = await response.json();
    return response.ok ? answer : { ...nothing, note: answer.error };
  } catch {
    return { ...nothing, note: "the manager does not answer" };
  }
}
