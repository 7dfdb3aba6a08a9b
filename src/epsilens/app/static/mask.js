// SPDX-License-Identifier: Apache-2.0
// The columns that identify people and can be spared: sentences, columns, notes, chart and accuracies.
import { byId, get, make, place } from "./api.js";

const BROADEST = 640;
const AXES = 90;

const paragraphs = (texts) => texts.map((text) => make("p", {}, text));

export function hideMask() {
  byId("mask").hidden = true;
}

// `isWanted` says whether the study is still looked at when its mask arrives.
export async function showMask(id, isWanted) {
  const room = Math.round(byId("showing").getBoundingClientRect().width);
  const shown = await get(`/api/studies/${id}/mask?width=${Math.max(200, Math.min(BROADEST, room - AXES))}`);
  if (!isWanted()) return;
  const [first, ...others] = shown.sentences;
  byId("mask").querySelector("#mask-said-first").textContent = first;
  byId("mask-said").replaceChildren(...paragraphs(others));
  const facts = [
    ["Masked columns", shown.masked.join(", ") || "none"],
    ["Kept columns", shown.kept.join(", ") || "none"],
    ["Importance for the prediction that is kept", shown.utility_kept, "estimated"],
    ["Importance for recognising people that is kept", shown.privacy_kept, "estimated"],
  ];
  byId("mask").querySelector("dl").replaceChildren(...facts.map(([title, text, kind]) => {
    const tag = kind ? [make("span", { className: `tag ${kind}` }, kind)] : [];
    return make("div", {}, make("dt", {}, title, ...tag), make("dd", {}, text));
  }));
  byId("mask-notes").replaceChildren(...paragraphs(shown.notes));
  place(shown.chart, byId("mask-chart"));
  const { title, headings, lines, notes } = shown.accuracies;
  byId("mask-title").textContent = title;
  byId("mask-table").tHead.replaceChildren(make("tr", {}, ...headings.map((heading) => (heading ? make("th", { scope: "col" }, heading) : make("td")))));
  byId("mask-table").tBodies[0].replaceChildren(...lines.map(([name, ...texts]) => make("tr", {}, make("th", { scope: "row" }, name), ...texts.map((text) => make("td", {}, text)))));
  byId("mask-table-note").textContent = notes.join(" ");
  byId("mask").hidden = false;
}
