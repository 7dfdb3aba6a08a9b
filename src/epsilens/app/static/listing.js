// SPDX-License-Identifier: Apache-2.0
// All studies; some of them side by side.
import { alarm, byId, get, make, place as put, remove, save } from "./api.js";

const STATES = { preview: "preview only", cost: "cost", decision: "cost, attack and mechanisms", mask: "columns that identify people" };
const LETTERS = "ABCD";
const MOST = LETTERS.length;
const saves = (row) => {
  const link = (part, words) => make("a", { href: `/api/studies/${row.study}/${part}`, textContent: words, download: "", onclick: save });
  return make("span", { className: "links" }, link("document.json", "JSON"), link("report.html", "report"));
};
// What is rounded was rounded where the reports are written.
const ROWS = [
  ["protected", (row) => row.protect.join(", ")],
  ["training rows", (row) => row.shown.n_train],
  ["recommended mechanism", (row) => (row.holds === false ? "none" : row.mechanism ?? "–")],
  ["recommended ε", (row) => (row.holds === false ? "none" : row.shown.epsilon)],
  ["more mistakes in 1,000 there (estimated)", (row) => row.shown.mistakes],
  ["more mistakes, upper end of 9 in 10 runs (estimated)", (row) => row.shown.mistakes_high],
  ["test loss before anything is protected", (row) => row.shown.baseline_loss],
  ["change of test loss there (estimated)", (row) => row.shown.loss_change],
  ["change of test loss, upper end of 9 in 10 runs (estimated)", (row) => row.shown.loss_change_high],
  ["answers that become guessable at most (proven)", (row) => row.shown.advantage],
  ["answers guessed, upper end of 9 in 10 releases (measured)", (row) => row.shown.answer_inference_high],
  ["answers guessed at most (proven given what everybody else's data give away)", (row) => row.shown.answer_inference_ceiling],
  ["in words", (row) => row.sentence ?? (row.has_attack || row.stage === "preview" ? "no decision yet" : "cost only: no attack is measured on this model")],
  ["save", saves],
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
  byId("studies").hidden = studies.length === 0;
  byId("how-many").textContent = studies.length ? `(${studies.length})` : "";
  byId("studies").tBodies[0].replaceChildren(...studies.map((study) => {
    const box = make("input", { type: "checkbox", value: study.id });
    box.setAttribute("aria-label", `compare ${study.name}`);
    box.addEventListener("change", count);
    const drop = make("button", { type: "button", className: "link", textContent: "delete" });
    drop.setAttribute("aria-label", `delete ${study.name}`);
    drop.addEventListener("click", () => forget(study));
    const link = make("a", { href: `#/study/${study.id}`, textContent: study.name });
    const isMask = study.stage === "mask";
    const protect = isMask ? [study.question.identity] : study.question.protect.length ? study.question.protect : [study.question.label];
    const working = study.jobs.some((job) => ["waiting", "running"].includes(job.state)) ? ", working" : "";
    return make("tr", {}, make("td", {}, isMask ? "" : box), make("th", { scope: "row" }, link), make("td", {}, protect.join(", ")), make("td", {}, study.table_name), make("td", {}, (isMask && study.unanswered ? "no answer yet" : STATES[study.stage]) + working), make("td", {}, drop));
  }));
  byId("comparing").hidden = studies.length < 2;
  count();
}

// Two to four: a chart of more lines is read by nobody.
function count() {
  const many = marked().length;
  byId("compare").disabled = many < 2 || many > MOST;
  byId("compare-note").textContent = many > MOST ? `At most ${MOST} at once.` : many === 1 ? "Mark one more." : many ? "" : `Mark 2 to ${MOST} studies.`;
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
  byId("compare").disabled = true;
  byId("compare-note").textContent = "Drawing …";
  try {
    const rows = await get(`/api/comparison?${query}`);
    const table = byId("comparison").querySelector("table");
    table.tHead.replaceChildren(make("tr", {}, make("td"), ...rows.map((row, place) => make("th", { scope: "col" }, make("span", { className: `letter letter-${place}` }, LETTERS[place]), ` ${row.name}${row.stage === "preview" ? " (preview)" : ""}`))));
    table.tBodies[0].replaceChildren(...ROWS.map(([words, text]) => make("tr", {}, make("th", { scope: "row" }, words), ...rows.map((row) => make("td", {}, text(row))))));
    byId("comparison").hidden = false;
    await draw(query);
    byId("comparison").querySelector("h2").focus({ preventScroll: true });
    byId("comparison").querySelector("h2").scrollIntoView({ block: "start" });
  } catch (error) {
    alarm(error.message);
  }
  count();
}

// What must not stand on one axis is said instead.
async function draw(query) {
  const place = byId("comparison-chart");
  const room = Math.round(place.getBoundingClientRect().width);
  place.replaceChildren();
  byId("comparison-words").textContent = "";
  byId("comparison-exports").hidden = true;
  for (const format of ["png", "svg"]) byId(`compare-${format}`).href = `/api/comparison/chart.${format}?${query}`;
  try {
    const svg = await get(`/api/comparison/chart.svg?${query}&titled=false&width=${Math.max(200, Math.min(760, room - 80))}`);
    put(svg, place);
    byId("comparison-exports").hidden = false;
  } catch (error) {
    if (error.status !== 422) throw error;
    byId("comparison-words").textContent = `No chart: ${error.message}`;
  }
}
