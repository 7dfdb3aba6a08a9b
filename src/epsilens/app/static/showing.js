// SPDX-License-Identifier: Apache-2.0
// A study: how far the work is, and its report, which is replaced as better answers arrive.
import { alarm, byId, get, make, patch, post } from "./api.js";
import { followChoices, replaceReport, stopReports } from "./frame.js";
import { hideMask, showMask } from "./mask.js";

const LINEAR = ["logistic", "ridge"];
// A linear model has an exact cost. Any other is trained again, and its cost is measured at a few budgets.
const costName = () => (LINEAR.includes(study.question.model) ? "exact cost" : "cost");
const ATTACK = "attack and mechanisms";
const worded = (texts) => texts[study.stage].replace("COST", costName());
const named = (kind) => ({ cost: costName(), attack: ATTACK, mask: "search for columns" })[kind];
const STAGES = { preview: "Preview at a few budgets", cost: "The COST of randomised response has arrived", decision: "The mechanisms are compared.", mask: "The columns that identify people are found." };
const COMING = { preview: "The preview is being drawn …", cost: "The COST has arrived and is being drawn …", decision: "The comparison of all mechanisms has arrived and is being drawn …", mask: "The columns have been found and are being drawn …" };
const APART = "Cost and attack are both here, but could not be joined: the report says why.";
const NO_ATTACK = { ridge: "no attack is measured on a model of numbers", forward: "attacks are measured without the correction" };
const ACTIVE = ["waiting", "running"];
const SOON = 600;
const LATER = 3000;

let study = null;
let shown = null;
// How far the report has come that is looked at now and what it shows, or why there is none.
let drawn = null;
let drawnKind = null;
let undrawn = null;
let timer = null;
let visit = 0;
// How often something was changed here; an answer that was asked for before is not heeded.
let changes = 0;
// Tells the other tabs at once; they would find out by themselves a little later.
const tabs = new BroadcastChannel("epsilens");

export async function enter(session, id) {
  visit += 1;
  shown = drawn = drawnKind = undrawn = null;
  delete document.documentElement.dataset.stage;
  study = null;
  hideMask();
  byId("jobs").replaceChildren();
  await refresh(id, visit);
}

export function leave() {
  visit += 1;
  delete document.documentElement.dataset.stage;
  study = null;
  clearTimeout(timer);
  stopReports();
}

async function refresh(id, mine) {
  clearTimeout(timer);
  let wait = LATER;
  const asked = changes;
  try {
    const found = await get(`/api/studies/${id}`);
    if (mine !== visit) return;
    alarm(null);
    const isNew = study?.id !== found.id;
    const before = isNew ? found.limits : study.limits;
    if (!isNew && asked !== changes) found.limits = before;
    study = found;
    paint(isNew);
    if (JSON.stringify(before) !== JSON.stringify(found.limits)) followChoices(before, found.limits);
    if (found.unanswered !== null) {
      if (await begin(id, mine)) wait = SOON;
    } else if (shown !== found.revision) {
      shown = found.revision;
      draw(found, mine)
        .then((kind) => {
          if (mine !== visit || kind === null) return null;
          [drawn, drawnKind, undrawn] = [found.stage, kind, null];
          paintStage();
          document.documentElement.dataset.stage = drawn;
          return begin(id, mine).then((began) => (began && mine === visit ? refresh(id, mine) : null));
        })
        .catch((error) => {
          if (mine !== visit) return;
          undrawn = error.message;
          paintStage();
        });
    }
    if (found.jobs.some((job) => ACTIVE.includes(job.state))) wait = SOON;
  } catch (error) {
    if (mine !== visit) return;
    alarm(error.message);
    if (error.status === undefined) throw error;
    if (error.status === 404) return;
  }
  timer = setTimeout(() => refresh(id, mine), wait);
}

// Shows what has arrived, and gives what kind of document it is; null if it is no longer wanted.
async function draw(found, mine) {
  if (found.stage !== "mask") return replaceReport(`/studies/${found.id}/page?revision=${found.revision}`, found.limits, keepChoices);
  await showMask(found.id, () => mine === visit);
  return "mask";
}

// The long work begins when the first answer is there to be looked at, or cannot be shown. Says whether it did.
async function begin(id, mine) {
  if (mine !== visit || study.jobs.length > 0) return false;
  const missing = study.stage === "mask" ? ["mask"] : [...(study.stage === "preview" ? ["cost"] : []), ...(study.has_attack ? ["attack"] : [])];
  for (const kind of missing) await post(`/api/studies/${id}/jobs`, { kind });
  return missing.length > 0;
}

function left(seconds) {
  if (seconds === null) return "";
  if (seconds < 1.5) return "a moment left";
  if (seconds < 90) return `about ${Math.round(seconds)} s left`;
  return seconds < 5400 ? `about ${Math.round(seconds / 60)} min left` : `about ${Math.round(seconds / 3600)} h left`;
}

function paint(isNew) {
  document.title = `${study.name} – epsilens`;
  byId("shown-name").textContent = study.name;
  byId("ask-again").href = `#/again/${study.id}`;
  paintStage();
  const api = `/api/studies/${study.id}`;
  byId("save-report").hidden = study.stage === "mask";
  byId("save-report").href = `${api}/report.html`;
  byId("save-json").href = `${api}/document.json`;
  for (const format of ["png", "svg"]) byId(`save-${format}`).href = `${api}/chart.${format}`;
  byId("rename").onclick = rename;
  const last = Object.values(Object.fromEntries(study.jobs.map((job) => [job.kind, job])));
  const open = last.filter((job) => job.state !== "done");
  const known = new Map([...byId("jobs").children].map((row) => [row.dataset.job, row]));
  byId("jobs").replaceChildren(...open.map((job) => row(job, isNew ? null : known.get(job.id))));
}

// In words what the report shows, not what it is about to show.
function paintStage() {
  const isApart = drawn === "decision" && drawnKind !== "decision";
  byId("skeleton").hidden = drawn !== null || undrawn !== null;
  byId("skeleton-words").textContent = study.unanswered === null ? "" : `${study.unanswered} ${next()}`;
  if (study.unanswered !== null) {
    byId("stage-words").textContent = `No answer yet${follows() || "."}`;
    return;
  }
  byId("stage-words").textContent = undrawn ?? (drawn !== study.stage ? worded(COMING) : isApart ? APART : worded(STAGES) + follows());
}

// When an answer can be expected that takes the place of one that failed its checks.
function next() {
  const kind = study.stage === "mask" ? "mask" : "cost";
  const job = study.jobs.findLast((one) => one.kind === kind);
  if (job && !ACTIVE.includes(job.state)) return `Resume the ${named(kind)} to get one.`;
  const pace = job ? left(job.seconds_left) : "";
  const planned = kind === "mask" || LINEAR.includes(study.question.model) ? "it is planned to take at most a minute" : "it takes minutes";
  return pace ? `The ${named(kind)} is on its way: ${pace}.` : `The ${named(kind)} is on its way; ${planned}.`;
}

// What is still to come, and whether it is on its way.
function follows() {
  if (["decision", "mask"].includes(study.stage)) return "";
  const isComing = !study.jobs.length || study.jobs.some((job) => ACTIVE.includes(job.state));
  if (!study.has_attack) {
    const why = NO_ATTACK[study.question.model] ?? NO_ATTACK[study.question.correction] ?? NO_ATTACK.ridge;
    if (study.stage === "cost") return `; ${why}.`;
    return isComing ? `; the ${costName()} follows; ${why}.` : `; the ${costName()} can be resumed; ${why}.`;
  }
  const missing = study.stage === "cost" ? "the attack and the other mechanisms" : `the ${costName()}, the attack and the other mechanisms`;
  return isComing ? `; ${missing} follow.` : `; ${missing} can be resumed.`;
}

// A row is kept while it says the same kind of thing, so that the focus on its button stays.
function row(job, known) {
  const isActive = ACTIVE.includes(job.state);
  const reuse = known && known.dataset.state === job.state;
  const made = reuse ? known : make("li", {}, make("span", { className: "words" }), make("progress", {}), make("button", { type: "button" }), make("span", { className: "told quiet" }));
  const [words, bar, button, told] = made.children;
  Object.assign(made.dataset, { job: job.id, state: job.state, kind: job.kind });
  const pace = job.state === "running" ? left(job.seconds_left) || "beginning" : job.state === "cancelled" ? "stopped" : job.state;
  words.textContent = `${named(job.kind)}: ${pace}`;
  words.classList.add("capital");
  bar.setAttribute("aria-label", `${named(job.kind)}, how far`);
  if (job.total) Object.assign(bar, { max: job.total, value: job.done }); else bar.removeAttribute("value");
  bar.hidden = !isActive;
  button.textContent = isActive ? "Stop" : "Resume";
  button.setAttribute("aria-label", `${isActive ? "Stop" : "Resume"} the ${named(job.kind)}`);
  button.onclick = () => act(job, isActive ? "cancel" : "resume");
  told.textContent = job.message ?? (isActive ? job.what : "");
  told.hidden = told.textContent === "";
  return made;
}

async function act(job, what) {
  try {
    await post(`/api/jobs/${job.id}/${what}`);
  } catch (error) {
    alarm(error.message);
  }
  refresh(study.id, visit);
}

async function rename() {
  const name = prompt("Name of the study", study.name)?.trim();
  if (!name) return;
  try {
    study = await patch(`/api/studies/${study.id}`, { name });
    paint(false);
  } catch (error) {
    alarm(error.message);
  }
}

// What was typed, dragged or looked at in the report is kept, for the next visit and for other tabs.
async function keepChoices(chosen) {
  if (!study) return;
  const limits = { ...study.limits, ...chosen };
  if (JSON.stringify(limits) === JSON.stringify(study.limits)) return;
  changes += 1;
  const { id } = study;
  try {
    // Only what was changed here: another tab may have changed the rest.
    const touched = Object.fromEntries(Object.entries(limits).filter(([key, value]) => value !== study.limits[key]));
    const changed = await patch(`/api/studies/${id}`, { limits: touched });
    if (study?.id === id) study = { ...study, limits: changed.limits };
    tabs.postMessage(id);
  } catch (error) {
    alarm(error.message);
  }
}

tabs.addEventListener("message", (event) => { if (event.data === study?.id && timer !== null) refresh(study.id, visit); });
