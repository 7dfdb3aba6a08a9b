// SPDX-License-Identifier: Apache-2.0
// The report inside the page: the same file that can be saved. A better one is loaded out of sight,
// told what was chosen in the old one, and takes its place when it is drawn and nobody is dragging.
import { post } from "./api.js";

// What is limited comes before the limit, whose number it would turn.
const CHOICES = ["trust", "group", "feared-kind", "accepted", "feared", "measured"];
const LIMITS = ["feared-kind", "accepted", "feared"];
const QUIET = 500;

let current = null;
let coming = null;

const place = () => document.getElementById("frames");
const pause = (time) => new Promise((done) => setTimeout(done, time));

export function stopReports() {
  place().replaceChildren();
  current = coming = null;
  delete document.documentElement.dataset.report;
}

// `choices` are those that are kept with the study; `onChoices` is told what is changed here. Gives
// what kind of document the report shows; null if a later one has overtaken it.
export async function replaceReport(address, choices, onChoices) {
  coming?.frame.remove();
  const frame = document.createElement("iframe");
  const mine = { frame, choices, isTouched: false, isHeld: false, isFollowing: false, isPending: false, touched: new Set() };
  coming = mine;
  frame.className = "coming";
  frame.title = "Report of the study";
  // A frame cannot show the key: a ticket opens this one report, once.
  const { ticket } = await post("/api/tickets", { path: address.split("?")[0] });
  if (coming !== mine) return null;
  frame.src = `${address}&ticket=${ticket}`;
  place().append(frame);
  await new Promise((done) => frame.addEventListener("load", done, { once: true }));
  const inside = frame.contentDocument;
  if (coming !== mine) return null;
  if (!inside.getElementById("page-data")) {
    const told = inside.body.textContent;
    frame.remove();
    coming = null;
    throw new Error(told.startsWith("{") ? JSON.parse(told).error : "The report could not be drawn.");
  }
  while (!inside.documentElement.dataset.ready) {
    await pause(20);
    if (coming !== mine) return null;
  }
  while (current?.isHeld) {
    await pause(50);
    if (coming !== mine) return null;
  }
  const scale = () => { frame.style.height = `${inside.documentElement.getBoundingClientRect().height}px`; };
  if (current) handOver(current, mine);
  else if (choices.chosen_epsilon !== null) look(mine, choices.chosen_epsilon);
  const focused = current?.frame === document.activeElement ? current.frame.contentDocument.activeElement?.id : null;
  current?.frame.remove();
  frame.classList.remove("coming");
  new ResizeObserver(scale).observe(inside.documentElement);
  scale();
  const kept = focused ? inside.getElementById(focused) : null;
  // What has the focus may stand in a part that is closed in the new report.
  kept?.closest("details:not([open])")?.setAttribute("open", "");
  kept?.focus({ preventScroll: true });
  current = mine;
  coming = null;
  watch(mine, onChoices);
  document.documentElement.dataset.report = address;
  return JSON.parse(inside.getElementById("page-data").textContent).kind;
}

// What was chosen in the old report is chosen in the new one; what was not touched is left to it.
function handOver(old, next) {
  const [before, after] = [old.frame.contentDocument, next.frame.contentDocument];
  if (old.touched.has("accepted") && before.getElementById("accepted")) next.frame.contentWindow.firstScreen.setCostKind(before.getElementById("accepted").dataset.kind);
  for (const id of CHOICES) {
    const [from, to] = [before.getElementById(id), after.getElementById(id)];
    if (!from || !to || !old.touched.has(id)) continue;
    if (to.type === "checkbox") to.checked = from.checked; else to.value = from.value;
    announce(next, to);
    next.touched.add(id);
  }
  if (old.isTouched) look(next, before.getElementById("number").value);
}

// Tell a report that one of its choices was changed, as if it had been typed or clicked.
function announce(report, choice) {
  const kind = choice.matches("select, [type=checkbox]") ? "change" : "input";
  choice.dispatchEvent(new report.frame.contentWindow.Event(kind, { bubbles: true }));
}

// Move a report to a budget, as if it had been typed.
function look(report, epsilon) {
  const number = report.frame.contentDocument.getElementById("number");
  if (epsilon === null || epsilon === "") return;
  number.value = String(epsilon);
  for (const kind of ["input", "blur"]) number.dispatchEvent(new report.frame.contentWindow.Event(kind));
  report.isTouched = true;
}

function set(id, value) {
  const box = current.frame.contentDocument.getElementById(id);
  if (!box) return;
  if (box.type === "checkbox") box.checked = value; else box.value = value ?? "";
  announce(current, box);
  current.touched.add(id);
}

// What was chosen in another tab is chosen here too, unless somebody is at it here.
export function followChoices(before, after) {
  if (!current || current.isHeld || current.isPending) return;
  current.isFollowing = true;
  const { firstScreen } = current.frame.contentWindow;
  const [byLoss, byRate] = [after.max_accuracy_loss === null, after.max_advantage === null];
  if (["max_loss_increase", "max_accuracy_loss"].some((key) => before[key] !== after[key])) {
    firstScreen.setCostKind(byLoss && after.max_loss_increase !== null ? "loss" : "mistakes");
    set("accepted", byLoss ? after.max_loss_increase : 10 * after.max_accuracy_loss);
  }
  if (["max_attack_rate", "max_advantage"].some((key) => before[key] !== after[key])) {
    set("feared-kind", byRate && after.max_attack_rate !== null ? "rate" : "advantage");
    const share = byRate ? after.max_attack_rate : after.max_advantage;
    set("feared", share === null ? null : Number((100 * share).toFixed(6)));
  }
  if (before.measured !== after.measured) set("measured", after.measured);
  if (before.chosen_epsilon !== after.chosen_epsilon) look(current, after.chosen_epsilon);
  current.isFollowing = false;
}

function watch(report, onChoices) {
  const inside = report.frame.contentDocument;
  const box = (id) => inside.getElementById(id);
  let timer = null;

  const { typedNumbers } = report.frame.contentWindow;
  // Undefined where what is typed cannot be used: then nothing is kept of it.
  const number = (id) => (box(id) ? typedNumbers.read(box(id)) : null);

  // Limits that were not touched may be nobody's choice; those that hold together are kept together.
  function read() {
    const found = {};
    const asked = LIMITS.some((id) => report.touched.has(id)) ? report.frame.contentWindow.firstScreen.read() : undefined;
    if (asked !== undefined) {
      const { cost, attack } = asked;
      const is = (limit, kind, value) => (limit?.kind === kind && !limit.isDefault ? value(limit.limit) : null);
      Object.assign(found, {
        max_loss_increase: is(cost, "loss", (value) => value),
        max_accuracy_loss: is(cost, "mistakes", (value) => value / 10),
      });
      // A report without attacks says nothing of their limit.
      if (box("feared")) Object.assign(found, {
        max_attack_rate: is(attack, "rate", (value) => value),
        max_advantage: is(attack, "advantage", (value) => value),
      });
    }
    if (report.touched.has("measured")) found.measured = box("measured")?.checked ?? false;
    if (report.isTouched) found.chosen_epsilon = number("number");
    return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
  }

  function note() {
    if (report.isFollowing) return;
    clearTimeout(timer);
    report.isPending = true;
    timer = setTimeout(() => { report.isPending = false; onChoices(read()); }, QUIET);
  }

  for (const kind of ["input", "change"]) {
    inside.addEventListener(kind, (event) => {
      if (report.isFollowing) return;
      // Which outcome or attack is drawn, and for whom, is a matter of this tab alone.
      if (!["number", "slider", "measured", ...LIMITS].includes(event.target.id)) {
        report.touched.add(event.target.id);
        return;
      }
      report.isTouched = true;
      report.touched.add(event.target.id);
      note();
    });
  }
  inside.addEventListener("keydown", (event) => {
    if (event.target.id !== "slider" || !/^(Arrow|Page|Home|End)/.test(event.key)) return;
    report.isTouched = true;
    note();
  });
  // Before the report's own answer to it: the first limits are the study's again.
  box("reset")?.addEventListener("click", () => {
    report.touched = new Set();
    report.isTouched = false;
    clearTimeout(timer);
    report.isPending = false;
    onChoices({ ...report.choices, chosen_epsilon: null });
  });
  inside.addEventListener("pointerdown", (event) => {
    report.isHeld = true;
    if (event.target.closest(".chart:not(.mechanisms)")) report.isTouched = true;
  });
  for (const end of ["pointerup", "pointercancel"]) {
    inside.addEventListener(end, () => {
      report.isHeld = false;
      // A dragged line writes into its box without a word.
      for (const id of ["accepted", "feared"]) {
        if (box(id) && box(id).value !== box(id).defaultValue) report.touched.add(id);
      }
      if (report.isTouched) note();
    });
  }
}
