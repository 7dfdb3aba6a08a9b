// SPDX-License-Identifier: Apache-2.0
// All studies; some of them side by side.
import { alarm, byId, get, make, remove } from "./api.js";

const STATES = { "first-order": "first-order only", cost: "cost", decision: "cost and attack" };
const rounded = (value) => (value === null || value === undefined ? "–" : value === "inf" ? "∞" : String(Number(value.toPrecision(3))));
const share = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`);
const ROWS = [
  ["randomised", (row) => row.protect.join(", ")],
  ["training records", (row) => String(row.n_train)],
  ["test loss before", (row) => rounded(row.baseline_loss)],
  ["recommended ε", (row) => (row.holds === false ? "none" : rounded(row.epsilon))],
  ["expected change of test loss there (estimated)", (row) => rounded(row.loss_change)],
  ["upper end of one run (estimated)", (row) => rounded(row.loss_change_high)],
  ["answers the attack guesses, upper end (measured)", (row) => share(row.answer_inference_high)],
  ["nobody can guess more than (proven)", (row) => share(row.answer_inference_ceiling)],
  ["in words", (row) => row.sentence ?? "no decision yet"],
];

export async function enter() {
  document.title = "Studies – epsilens";
  byId("compare").onclick = compare;
  byId("comparison").hidden = true;
  await paint();
}

const marked = () => [...document.querySelectorAll("#studies input:checked")].map((box) => box.value);

async function paint() {
  const studies = await get("/api/studies");
  byId("no-studies").hidden = studies.length > 0;
  byId("studies").hidden = byId("compare").hidden = studies.length === 0;
  byId("how-many").textContent = studies.length ? `(${studies.length})` : "";
  byId("studies").tBodies[0].replaceChildren(...studies.map((study) => {
    const box = make("input", { type: "checkbox", value: study.id });
    box.setAttribute("aria-label", `compare ${study.name}`);
    box.addEventListener("change", () => { byId("compare").disabled = marked().length < 2; });
    const drop = make("button", { type: "button", className: "link", textContent: "delete" });
    drop.setAttribute("aria-label", `delete ${study.name}`);
    drop.addEventListener("click", () => forget(study));
    const link = make("a", { href: `#/study/${study.id}`, textContent: study.name });
    const protect = study.question.protect.length ? study.question.protect : [study.question.label];
    const working = study.jobs.some((job) => ["waiting", "running"].includes(job.state)) ? ", working" : "";
    return make("tr", {}, make("td", {}, box), make("th", { scope: "row" }, link), make("td", {}, protect.join(", ")), make("td", {}, study.table_name), make("td", {}, STATES[study.stage] + working), make("td", {}, drop));
  }));
  byId("compare").disabled = true;
}

async function forget(study) {
  if (!confirm(`Delete ${study.name} and all that was found?`)) return;
  try {
    await remove(`/api/studies/${study.id}`);
  } catch (error) {
    alarm(error.message);
  }
  byId("comparison").hidden = true;
  await paint();
}

async function compare() {
  const query = marked().map((id) => `study=${id}`).join("&");
  try {
    const rows = await get(`/api/comparison?${query}`);
    const table = byId("comparison").querySelector("table");
    table.tHead.replaceChildren(make("tr", {}, make("td"), ...rows.map((row) => make("th", { scope: "col" }, row.name))));
    table.tBodies[0].replaceChildren(...ROWS.map(([words, text]) => make("tr", {}, make("th", { scope: "row" }, words), ...rows.map((row) => make("td", {}, text(row))))));
    byId("comparison").hidden = false;
    byId("comparison").querySelector("h2").scrollIntoView({ block: "nearest" });
  } catch (error) {
    alarm(error.message);
  }
}
