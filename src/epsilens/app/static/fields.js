// SPDX-License-Identifier: Apache-2.0
// What is typed into the fields of a question: numbers, and the list of budgets.
import { byId } from "./api.js";

const { parse, read, tell } = globalThis.typedNumbers;
const MOST_BUDGETS = 10_000;
const boxes = () => [...document.querySelectorAll("#asking [data-expects]")];

export const number = (id) => read(byId(id));

// A number as it is sent, from what was typed with a point or a comma; null where it is none.
export const asTyped = (text) => { const value = parse(text); return typeof value === "number" ? String(value) : null; };

// Parts of START:STOP:COUNT with points for decimal commas.
export const withPoints = (text) => text.split(":").map((part) => part.trim().replace(",", ".")).join(":");

// The budgets as they are sent, and how they are understood. A comma is decimal beside a colon or a
// semicolon; alone it separates budgets, as in the command.
function budgets(text) {
  const [, scale, rest] = text.trim().match(/^(lin:)?(.*)$/s);
  const sign = [":", ";"].find((one) => rest.includes(one)) ?? ",";
  const parts = rest.split(sign).map(asTyped);
  if (sign === "," && parts.includes("0")) return { wrong: "A comma separates budgets here. Type a point for decimals, such as 0.05." };
  const [first, last, count] = parts;
  const isRange = parts.length === 3 && /^\d+$/.test(count) && count >= 2 && count <= MOST_BUDGETS;
  if (parts.some((part) => part === null || part <= 0) || (sign === ":" && !isRange)) return { wrong: "Type budgets greater than 0, such as 0.1:10:30, or 0.5; 1; 2." };
  const sent = (scale ?? "") + parts.join(sign === ":" ? ":" : ",");
  if (sign === ":") return { sent, words: `${count} budgets from ${first} to ${last}.` };
  const named = parts.length > 4 ? `${first} and ${parts.length - 1} more` : parts.join(" and ");
  return { sent, words: parts.length === 1 ? `One budget: ${named}.` : `${parts.length} budgets: ${named}.` };
}

export const epsilonGrid = () => budgets(byId("epsilon").value).sent;

function tellBudgets() {
  const { wrong, words } = budgets(byId("epsilon").value);
  byId("epsilon").setAttribute("aria-invalid", String(Boolean(wrong)));
  byId("epsilon-note").textContent = wrong ?? words;
  byId("epsilon-note").classList.toggle("field-note", Boolean(wrong));
}

export function tellFields() {
  boxes().forEach(tell);
  tellBudgets();
}

export function wireFields() {
  for (const box of boxes()) box.addEventListener("input", () => tell(box));
  byId("epsilon").addEventListener("input", tellBudgets);
}

export function openTo(id) {
  for (let part = byId(id).closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  byId(id).focus();
}

// Leads to the first field that cannot be used; says whether there is one.
export function hasWrongField() {
  tellFields();
  const wrong = document.querySelector('#asking [aria-invalid="true"]');
  if (wrong) openTo(wrong.id);
  return wrong !== null;
}
