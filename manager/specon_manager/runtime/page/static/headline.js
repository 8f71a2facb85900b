// The figures that say at once what converged jobs hold, and what their moves gave back.

import { byId, element, keyed, setText } from "./dom.js";
import { resourceTime, span } from "./words.js";

const short = (amount) => amount.toLocaleString("en", { maximumFractionDigits: 1 });

const UNKNOWN = "not known";

/** GPUs first, where there are any: they are the scarce resource. */
function amounts([cores, gpus], anyGpu) {
  const said = [resourceTime(cores, "core")];
  if (anyGpu) said.unshift(resourceTime(gpus, "GPU"));
  return said;
}

export function showHeadline(view) {
  const { running, converged, cores, gpus, held, freed, seconds, saved } = view.headline;
  const anyGpu = gpus[1] > 0;
  const [holds, holdsToo] = amounts(held, anyGpu);
  const [gave, gaveToo] = amounts(freed, anyGpu);
  const now = anyGpu ? `${short(gpus[0])} of ${short(gpus[1])} GPUs now` : `${short(cores[0])} of ${short(cores[1])} cores now`;
  const too = (amount, note) => [amount, note].filter(Boolean).join(" · ");
  const figures = [
    ["converged", "Converged now", `${converged} of ${running}`, "of the replicas that run"],
    ["held", "Converged jobs held", holds, too(holdsToo, `${now}, summed up for ${span(seconds)}`)],
    ["freed", "Freed by their moves", gave, too(gaveToo, "on the nodes that they left")],
    ["saved", "Time to 98 % saved", saved === null ? UNKNOWN : span(saved), "compared with a run without moves"],
  ];
  keyed(
    byId("headline"),
    figures,
    ([id]) => id,
    ([id, title]) => element("li", { class: `figure figure-${id}` }, element("span", { class: "title" }, title), element("b"), element("small")),
    (node, [, , value, note]) => {
      setText(node.querySelector("b"), value);
      node.querySelector("b").classList.toggle("unknown", value === UNKNOWN);
      if (value === UNKNOWN) node.querySelector("small").replaceChildren("one run cannot tell: ", element("code", {}, "demo --compare"), " does");
      else setText(node.querySelector("small"), note);
    },
  );
}
