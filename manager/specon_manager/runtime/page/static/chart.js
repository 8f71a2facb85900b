// Loss curves. Each part of a line has the colour of what the job was then; moves are marked.

import { drawn } from "./dom.js";
import { className, formatTimes, number, span } from "./words.js";

const finite = (curve) => curve.filter((point) => typeof point[1] === "number");

/** What a curve says, for those who do not see it. */
export function spoken(row) {
  const points = finite(row.curve);
  if (points.length < 2) return "no curve yet";
  const first = points[0];
  const last = points[points.length - 1];
  const times = row.moved_at.length;
  const moves = times ? `, moved ${formatTimes(times)}` : "";
  return `${row.metric ?? "metric"} from ${number(first[1])} to ${number(last[1])} within ${span(last[0] - first[0])}${moves}`;
}

export function chart(row, { width, height, margin, labels = false }) {
  const svg = drawn("svg", {
    class: labels ? "chart" : "spark",
    viewBox: `0 0 ${width} ${height}`,
    preserveAspectRatio: "xMinYMid",
    role: "img",
    "aria-label": spoken(row),
  });
  const points = finite(row.curve);
  if (points.length < 2) {
    svg.append(drawn("path", { class: "nothing", d: `M${margin.left} ${height / 2}H${width - margin.right}` }));
    return svg;
  }
  const begin = points[0][0];
  const end = Math.max(points[points.length - 1][0], begin + 1e-3);
  const values = points.map((point) => point[1]);
  const least = Math.min(...values);
  const most = Math.max(...values);
  const room = { x: width - margin.left - margin.right, y: height - margin.top - margin.bottom };
  const x = (at) => margin.left + ((at - begin) / (end - begin)) * room.x;
  const y = (value) => margin.top + (most === least ? 0.5 : (most - value) / (most - least)) * room.y;
  const place = (point) => `${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`;
  if (labels) axes(svg, { begin, end, least, most, width, height, margin, x, y });
  for (const at of row.moved_at) {
    if (at < begin || at > end) continue;
    svg.append(drawn("path", { class: "moved", d: `M${x(at).toFixed(1)} ${margin.top}v${room.y}` }));
    if (labels) svg.append(drawn("text", { class: "moved-label", x: x(at) + 4, y: margin.top + 9 }, "moved"));
  }
  let from = 0;
  for (let index = 1; index <= points.length; index += 1) {
    if (index < points.length && points[index][2] === points[from][2]) continue;
    // The part reaches to the first point of the next one, so that the line has no gaps.
    const part = points.slice(from, Math.min(index + 1, points.length));
    if (part.length > 1) {
      svg.append(drawn("path", { class: `line ${className(points[from][2])}`, d: `M${part.map(place).join("L")}` }));
    }
    from = index;
  }
  const last = points[points.length - 1];
  svg.append(drawn("circle", { class: `dot ${className(last[2])}`, cx: x(last[0]), cy: y(last[1]), r: labels ? 4 : 2.5 }));
  return svg;
}

function axes(svg, { begin, end, least, most, width, height, margin, x, y }) {
  for (const value of most === least ? [most] : [most, (most + least) / 2, least]) {
    svg.append(
      drawn("path", { class: "grid", d: `M${margin.left} ${y(value).toFixed(1)}H${width - margin.right}` }),
      drawn("text", { class: "tick", x: margin.left - 6, y: y(value) + 3.5, "text-anchor": "end" }, number(value)),
    );
  }
  const ticks = [
    [begin, "start", `${span(end - begin)} ago`],
    [end, "end", "last report"],
  ];
  for (const [at, anchor, text] of ticks) {
    svg.append(drawn("text", { class: "tick", x: x(at), y: height - 4, "text-anchor": anchor }, text));
  }
}
