// SPDX-License-Identifier: Apache-2.0
// The report inside the page: the same file that can be saved. A better one is loaded out of sight,
// told what was chosen in the old one, and takes its place when it is drawn and nobody is dragging.
import { post } from "./api.js";

const CHOICES = ["group", "accepted", "feared", "proven-only"];
const QUIET = 500;

let current = null;
let coming = null;

const place = () => document.getElementById("frames");
const pause = (time) => new Promise((done) => setTimeout(done, time));

export function stopReports() {
  place().replaceChildren();
  current = coming = null;
}

export async function replaceReport(address, onLimits) {
  coming?.frame.remove();
  const frame = document.createElement("iframe");
  const mine = { frame, isTouched: false, isHeld: false, touched: new Set() };
  coming = mine;
  frame.className = "coming";
  frame.title = "Report of the study";
  // A frame cannot show the key: a ticket opens this one report, once.
  const { ticket } = await post("/api/tickets", { path: address.split("?")[0] });
  if (coming !== mine) return;
  frame.src = `${address}&ticket=${ticket}`;
  place().append(frame);
  await new Promise((done) => frame.addEventListener("load", done, { once: true }));
  const inside = frame.contentDocument;
  if (coming !== mine) return;
  if (!inside.getElementById("page-data")) {
    const told = inside.body.textContent;
    frame.remove();
    coming = null;
    throw new Error(told.startsWith("{") ? JSON.parse(told).error : "The report could not be drawn.");
  }
  while (!inside.documentElement.dataset.ready) {
    await pause(20);
    if (coming !== mine) return;
  }
  while (current?.isHeld) {
    await pause(50);
    if (coming !== mine) return;
  }
  const scale = () => { frame.style.height = `${inside.documentElement.getBoundingClientRect().height}px`; };
  if (current) handOver(current, mine);
  const focused = current?.frame === document.activeElement ? current.frame.contentDocument.activeElement?.id : null;
  current?.frame.remove();
  frame.classList.remove("coming");
  new ResizeObserver(scale).observe(inside.documentElement);
  scale();
  if (focused) inside.getElementById(focused)?.focus({ preventScroll: true });
  current = mine;
  coming = null;
  watch(mine, onLimits);
  document.documentElement.dataset.report = address;
}

// What was chosen in the old report is chosen in the new one; what was not touched is left to it.
function handOver(old, next) {
  const [before, after] = [old.frame.contentDocument, next.frame.contentDocument];
  for (const id of CHOICES) {
    const [from, to] = [before.getElementById(id), after.getElementById(id)];
    if (!from || !to || !old.touched.has(id)) continue;
    if (to.type === "checkbox") to.checked = from.checked; else to.value = from.value;
    to.dispatchEvent(new next.frame.contentWindow.Event(to.type === "number" ? "input" : "change", { bubbles: true }));
    next.touched.add(id);
  }
  if (old.isTouched) {
    const number = after.getElementById("number");
    number.value = before.getElementById("number").value;
    number.dispatchEvent(new next.frame.contentWindow.Event("input"));
    number.dispatchEvent(new next.frame.contentWindow.Event("blur"));
    next.isTouched = true;
  }
}

function watch(report, onLimits) {
  const inside = report.frame.contentDocument;
  const box = (id) => inside.getElementById(id);
  const first = JSON.stringify(read());
  let timer = null;

  function number(id) {
    const value = box(id)?.value.trim() ?? "";
    return value === "" || !Number.isFinite(Number(value)) || Number(value) < 0 ? null : Number(value);
  }

  function read() {
    const rate = number("feared");
    return {
      max_loss_increase: number("accepted"),
      max_attack_rate: rate === null || rate <= 0 || rate >= 100 ? null : rate / 100,
      proven_only: box("proven-only")?.checked ?? false,
    };
  }

  function note() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const limits = read();
      if (JSON.stringify(limits) !== first || report.touched.has("accepted") || report.touched.has("feared")) onLimits(limits);
    }, QUIET);
  }

  for (const kind of ["input", "change"]) {
    inside.addEventListener(kind, (event) => {
      report.isTouched = true;
      report.touched.add(event.target.id);
      if (["accepted", "feared", "proven-only"].includes(event.target.id)) note();
    });
  }
  inside.addEventListener("keydown", (event) => { if (event.target.id === "slider") report.isTouched = true; });
  inside.addEventListener("pointerdown", (event) => {
    report.isHeld = true;
    if (event.target.closest(".chart")) report.isTouched = true;
  });
  for (const end of ["pointerup", "pointercancel"]) {
    inside.addEventListener(end, () => {
      report.isHeld = false;
      // A dragged line writes into its box without a word.
      for (const id of ["accepted", "feared"]) {
        if (box(id) && box(id).value !== box(id).defaultValue) { report.touched.add(id); note(); }
      }
    });
  }
}
