// SPDX-License-Identifier: Apache-2.0
// Boxes for numbers, in the report and on the page. A decimal comma is understood in every language of
// the browser; a box that cannot be used says so beside itself, and only for as long as that is so.
"use strict";
globalThis.typedNumbers = (() => {
  const NUMBER = /^[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d{1,3})?$/i;
  // 1,234 is a thousand to some and little more than one to others.
  const TWO_READINGS = /^[+-]?[1-9]\d{0,2},\d{3}$/;

  // A number, null where nothing is typed, undefined where it is no number.
  function parse(text) {
    const plain = text.trim().replace("\u2212", "-");
    if (plain === "") return null;
    const value = NUMBER.test(plain) && !TWO_READINGS.test(plain) ? Number(plain.replace(",", ".")) : NaN;
    return Number.isFinite(value) ? value : undefined;
  }

  // The same, and undefined where the number is outside what the box takes.
  function read(box) {
    const value = parse(box.value);
    if (typeof value !== "number") return value;
    const { least, above, most, below, whole } = box.dataset;
    const isOutside = value < Number(least ?? -Infinity) || value <= Number(above ?? -Infinity) ||
      value > Number(most ?? Infinity) || value >= Number(below ?? Infinity);
    return isOutside || (whole !== undefined && !Number.isInteger(value)) ? undefined : value;
  }

  // Says beside a box what it expects; says nothing beside one that can be used. Gives what `read` does.
  function tell(box) {
    const value = read(box);
    const words = TWO_READINGS.test(box.value.trim())
      ? "A comma before three digits can be read in two ways. Type a point for decimals, and nothing for thousands."
      : `Type ${box.dataset.expects}.`;
    box.setAttribute("aria-invalid", String(value === undefined));
    document.getElementById(box.dataset.note ?? `${box.id}-note`).textContent = value === undefined ? words : "";
    return value;
  }

  // A multiple of a step, without the digits that arithmetic adds.
  const onStep = (value, step) => String(Number((Math.round(value / step) * step).toFixed(Math.max(0, Math.ceil(-Math.log10(step))))));

  // The arrow keys change a number by its step.
  document.addEventListener("keydown", (event) => {
    const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    const box = event.target;
    if (by === undefined || !box.dataset?.step || typeof read(box) !== "number") return;
    event.preventDefault();
    const before = box.value;
    box.value = onStep(read(box) + by * box.dataset.step, Number(box.dataset.step));
    if (read(box) === undefined) box.value = before;
    else box.dispatchEvent(new Event("input", { bubbles: true }));
  });

  return { parse, read, tell, onStep };
})();
