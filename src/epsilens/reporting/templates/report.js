// SPDX-License-Identifier: Apache-2.0
// The page looks numbers up and moves lines; it computes nothing and rounds nothing.
"use strict";
(() => {
  const page = JSON.parse(document.getElementById("page-data").textContent);
  const byId = (id) => document.getElementById(id);
  const [slider, number, accepted, chart] = ["slider", "number", "accepted", "chart"].map(byId);
  const THUMB = 24;

  let group = page.start.group;
  let current = null;
  let view = null;
  let outcome = Object.keys(page.charts)[0];

  const drawable = () => page.groups[group].filter((cell) => cell.budget !== null);

  function nearest(budget) {
    const far = (cell) => Math.abs(Math.log(cell.budget / budget));
    return drawable().reduce((best, cell) => (far(cell) < far(best) ? cell : best));
  }

  function show(cell) {
    current = cell;
    slider.value = Math.log10(cell.budget);
    slider.setAttribute("aria-valuetext", `ε = ${cell.epsilon}`);
    if (document.activeElement !== number) number.value = cell.epsilon;
    byId("epsilon").textContent = cell.epsilon;
    byId("record_epsilon").textContent = cell.record_epsilon;
    byId("sentence").textContent = cell.sentence;
    byId("loss").textContent = cell.loss;
    byId("interval").textContent = cell.interval ?? "not computed";
    if (byId("accuracy")) byId("accuracy").textContent = cell.accuracy ?? "–";
    if (byId("expected_accuracy")) byId("expected_accuracy").textContent = cell.expected_accuracy ?? "–";
    for (const part of document.querySelectorAll("[data-gap]")) {
      const [shown, expected] = [cell[part.dataset.gap], cell[`expected_${part.dataset.gap}`]];
      part.hidden = shown === null;
      byId(part.dataset.gap).textContent = shown ?? "–";
      byId(`expected_${part.dataset.gap}`).textContent = expected ?? "–";
      byId(`expected_${part.dataset.gap}`).parentElement.hidden = expected === null;
    }
    byId("recommended").hidden = page.recommended !== cell.budget;
    if (view) view.signal("chosen_epsilon", cell.budget).run();
    mark();
  }

  function mark() {
    for (const row of document.querySelectorAll("tr[aria-current]")) row.removeAttribute("aria-current");
    const region = [...document.querySelectorAll("[data-group]")].find((part) => part.dataset.group === group);
    region.querySelectorAll("tbody tr")[page.groups[group].indexOf(current)].setAttribute("aria-current", "true");
  }

  function step(by) {
    const cells = drawable();
    const wanted = Math.min(Math.max(cells.indexOf(current) + by, 0), cells.length - 1);
    show(cells[wanted]);
  }

  function setSlider() {
    const budgets = drawable().map((cell) => Math.log10(cell.budget));
    slider.min = Math.min(...budgets);
    slider.max = Math.max(...budgets);
    byId("slides").hidden = budgets.length < 2;
  }

  // Where the plot begins on the screen: the picture's edge, its padding and the axis labels.
  const plotLeft = () => chart.querySelector("svg").getBoundingClientRect().left + view.padding().left + view.origin()[0];

  // The thumb stands under the line in the chart.
  function align() {
    const scale = view.scale("x");
    const plot = plotLeft() - chart.getBoundingClientRect().left;
    const start = plot + scale(10 ** Number(slider.min));
    const end = plot + scale(10 ** Number(slider.max));
    byId("slide").style.marginLeft = `${start - THUMB / 2}px`;
    byId("slide").style.width = `${end - start + THUMB}px`;
  }

  // The smallest budget whose upper end is accepted there and at every larger budget.
  function smallestWithin(limit) {
    let [found, sure] = [null, true];
    for (const cell of [...page.groups[group]].reverse()) {
      if (cell.high === null || cell.high > limit) break;
      found = cell;
      sure = sure && cell.trusted;
    }
    return [found, sure];
  }

  function solve() {
    if (!accepted) return;
    const typed = accepted.value.trim();
    const limit = typed === "" ? null : Number(typed);
    const usable = limit !== null && Number.isFinite(limit) && limit >= 0;
    const words = byId("within");
    const use = byId("use");
    use.hidden = true;
    if (view && outcome === "loss") view.signal("accepted_loss", usable ? limit : null).run();
    if (limit === null) { words.textContent = ""; return; }
    if (!usable) { words.textContent = "Type a number that is not negative."; return; }
    const [cell, sure] = smallestWithin(limit);
    const whom = byId("group") ? ` for ${byId("group").selectedOptions[0].textContent}` : "";
    if (cell === null) {
      words.textContent = `No budget computed here keeps its 9-in-10 range within it${whom}.`;
    } else {
      words.textContent = `The smallest budget whose 9-in-10 range stays within it${whom} is ε = ${cell.epsilon}.` +
        (sure ? "" : " Some checks on the way failed: do not rely on it.");
      use.hidden = cell.budget === null || cell === current;
      use.onclick = () => { show(cell); use.hidden = true; };
    }
  }

  async function draw() {
    const result = await vegaEmbed(chart, page.charts[outcome], { mode: "vega", renderer: "svg", actions: false, ast: true });
    view = result.view;
    byId("caption").textContent = page.captions[outcome];
    byId("picture").setAttribute("aria-label", page.charts[outcome].description);
    view.signal("chosen_epsilon", current.budget);
    await view.runAsync();
    align();
    solve();
    document.documentElement.dataset.ready = outcome;
  }

  function chooseGroup(name) {
    group = name;
    for (const part of document.querySelectorAll("[data-group]")) part.hidden = part.dataset.group !== group;
    setSlider();
    show(nearest(current ? current.budget : page.start.epsilon));
    if (view) align();
    solve();
  }

  slider.addEventListener("input", () => show(nearest(10 ** Number(slider.value))));
  slider.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -5, PageUp: 5, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    step(by);
  });
  number.addEventListener("input", () => {
    const typed = Number(number.value);
    const usable = number.value.trim() !== "" && Number.isFinite(typed) && typed > 0;
    byId("nearest").textContent = usable ? "" : "Type a number greater than 0.";
    if (!usable) return;
    const cell = nearest(typed);
    show(cell);
    if (Math.abs(cell.budget / typed - 1) > 0.005) byId("nearest").textContent = `Nearest computed budget: ε = ${cell.epsilon}.`;
  });
  number.addEventListener("blur", () => { number.value = current.epsilon; });
  if (accepted) accepted.addEventListener("input", solve);
  if (byId("group")) byId("group").addEventListener("change", (event) => chooseGroup(event.target.value));
  for (const choice of document.querySelectorAll("input[name=outcome]")) {
    choice.addEventListener("change", () => { outcome = choice.value; draw(); });
  }

  function follow(event) {
    if (!view || (event.type === "pointermove" && event.buttons !== 1)) return;
    const cell = nearest(view.scale("x").invert(event.clientX - plotLeft()));
    if (cell !== current) show(cell);
  }
  chart.addEventListener("pointerdown", follow);
  chart.addEventListener("pointermove", follow);
  new ResizeObserver(() => { if (view) view.resize().runAsync().then(align); }).observe(chart);

  byId("download").addEventListener("click", () => {
    const text = JSON.stringify(JSON.parse(byId("document").textContent), null, 2);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text + "\n"], { type: "application/json" }));
    link.download = "epsilens-whatif.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });

  chooseGroup(group);
  draw();
})();
