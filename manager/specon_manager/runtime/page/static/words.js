// What replicas are, in words, signs and numbers. A colour is never the only sign.

import { drawn, element } from "./dom.js";

const SIGNS = {
  hung: "M8 1 15 8 8 15 1 8ZM7 4v5h2v-5ZM7 10.5v2h2v-2Z",
  progressing: "M8 2 15 14H1Z",
  watching: "M8 1 15 8 8 15 1 8Z",
  converged: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 1 0 0-13Z",
  stalled: "M2.5 2h4v12h-4ZM9.5 2h4v12h-4Z",
  diverging: "M1 2h14L8 14Z",
  unknown: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 1 0 0-13ZM8 4a4 4 0 1 1 0 8 4 4 0 1 1 0-8Z",
  "not-classifiable": "M1.5 6.5h13v3h-13Z",
  Pending: "M2 2h12v12H2ZM4.5 4.5v7h7v-7Z",
  Awaited: "M8 1 15 8 8 15 1 8ZM8 4.5 4.5 8 8 11.5 11.5 8Z",
  Starting: "M3.5 1.5 14 8 3.5 14.5Z",
  Running: "M3.5 1.5 14 8 3.5 14.5Z",
  Succeeded: "M1 8.5 3.2 6.3 6.3 9.4 12.8 2.9 15 5.1 6.3 13.8Z",
  Failed: "M2.1 4.2 4.2 2.1 8 5.9 11.8 2.1 13.9 4.2 10.1 8 13.9 11.8 11.8 13.9 8 10.1 4.2 13.9 2.1 11.8 5.9 8Z",
};

const SAID = {
  hung: "no step for many times the usual, and its processes wait",
  progressing: "still learning",
  watching: "slower, being watched",
  converged: "next to nothing still to come",
  stalled: "no new sample for too long",
  diverging: "rising, infinite or not a number",
  unknown: "nothing learnt measurably yet",
  "not-classifiable": "has no metric that can be judged",
  Pending: "waits to be started",
  Awaited: "its owner is to start it",
  Starting: "ordered, not yet seen",
  Succeeded: "has ended well",
  Failed: "has ended badly",
};

export const WORDS = Object.keys(SIGNS);

export const meaning = (word) => SAID[word] ?? word;

export const className = (word) => `is-${word.toLowerCase()}`;

/** The sign of a word, in its colour; the word itself always stands beside it or in a label. */
export const sign = (word) =>
  drawn(
    "svg",
    { class: `sign ${className(word)}`, viewBox: "0 0 16 16", "aria-hidden": "true" },
    drawn("path", { d: SIGNS[word] ?? SIGNS.unknown, "fill-rule": "evenodd" }),
  );

export const wordWithSign = (word) =>
  element("span", { class: "word", title: meaning(word) }, sign(word), word.toLowerCase());

const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

/** Seconds in their two largest units, rounded before they are parted: never "5 min 60 s", and "6 min" alone. */
export function span(seconds) {
  if (!Number.isFinite(seconds)) return "";
  const whole = Math.max(0, Math.round(seconds));
  const first = Math.max(0, UNITS.findIndex(([size]) => whole >= size));
  if (whole === 0) return "0 s";
  const [size, unit] = UNITS[first];
  const [smaller, small] = UNITS[first + 1] ?? [1, ""];
  const rest = Math.floor((whole % size) / smaller);
  return `${Math.floor(whole / size)} ${unit}${rest && small ? ` ${rest} ${small}` : ""}`;
}

/** A short time that was measured: with a tenth of a second below a minute. */
export function measured(seconds) {
  const tenths = Math.round(10 * seconds);
  return tenths < 600 ? `${(tenths / 10).toFixed(1)} s` : span(seconds);
}

/** Cores or GPUs times seconds, in minutes or hours of one of them. */
export function resourceTime(seconds, unit) {
  if (seconds < 3600) return `${(seconds / 60).toFixed(seconds < 600 ? 1 : 0)} ${unit}-min`;
  const hours = seconds / 3600;
  const digits = hours < 100 ? 1 : 0;
  return `${hours.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${unit}-hours`;
}

/** A number with about four digits; a text is returned unchanged. */
export function number(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1);
  if (Number.isInteger(value) && size >= 10) return String(value);
  return value.toFixed(size < 10 ? 4 : 2);
}

export const percent = (share) => (typeof share === "number" ? `${(100 * share).toFixed(Math.abs(share) < 0.1 ? 2 : 0)} %` : "");

export const bytes = (amount) => (amount >= 1e9 ? `${(amount / 1e9).toFixed(1)} GB` : `${(amount / 1e6).toFixed(0)} MB`);

/** A number with its noun: `1 job`, `2 jobs`. */
export function formatCount(count, noun) {
  return `${count} ${nounFor(count, noun)}`;
}

/** The noun alone, in the number that fits. */
export function nounFor(count, noun, plural = `${noun}s`) {
  return count === 1 ? noun : plural;
}

/** How often something happened. */
export function formatTimes(count) {
  return count === 1 ? "once" : `${count} times`;
}
