// SPDX-License-Identifier: Apache-2.0
// The page looks numbers up, compares limits with them and moves lines; it rounds nothing.
"use strict";
(() => {
  const page = JSON.parse(document.getElementById("page-data").textContent);
  const byId = (id) => document.getElementById(id);
  const [slider, number] = ["slider", "number"].map(byId);
  const isDecision = page.kind === "decision";
  const THUMB = 24;
  const NEAR = 7;

  let group = page.start.group;
  let current = null;
  // What the limits lead to, and the words for it; null where there are none.
  let solved = null;
  // What stands in large type instead of a budget, as "no ε"; empty where a budget does.
  let verdict = "";

  // The charts: where they stand, what can be shown in them, and what is shown.
  const plots = {
    cost: { picture: byId("picture"), place: byId("chart"), caption: byId("caption"), specs: page.charts, captions: page.captions },
    risk: { picture: byId("risk-picture"), place: byId("risk-chart"), caption: byId("risk-caption"), specs: page.risk_charts, captions: page.risk_captions },
  };
  for (const plot of Object.values(plots)) Object.assign(plot, { view: null, shown: Object.keys(plot.specs)[0] });
  const drawn = () => Object.values(plots).filter((plot) => plot.view);

  // The limits: typed or dragged, each a dashed line in one chart.
  const limits = {
    accepted: { box: byId("accepted"), plot: plots.cost, belongs: "loss", signal: "accepted_loss", step: page.steps.loss, least: 0, most: Infinity },
    feared: { box: byId("feared"), plot: plots.risk, belongs: "answer", signal: "feared_rate", step: page.steps.rate, least: page.steps.rate, most: 100 - page.steps.rate },
  };
  for (const [name, limit] of Object.entries(limits)) {
    limit.grip = document.querySelector(`[data-limit=${name}]`);
    limit.first = limit.box ? limit.box.value : "";
  }
  const measuredCounts = byId("measured");

  const drawable = () => page.groups[group].filter((cell) => cell.budget !== null);

  // Budgets outside the axis, as infinity, have no number there.
  const keyOf = (cell) => cell.budget ?? cell.outside;
  const isChanged = () => Object.values(limits).some((limit) => limit.box && read(limit) !== typedNumbers.parse(limit.first)) ||
    (measuredCounts !== null && measuredCounts.checked !== measuredCounts.defaultChecked);
  const typed = (cell) => (cell.budget === null ? "" : cell.epsilon);

  function nearest(budget) {
    const far = (cell) => Math.abs(Math.log(cell.budget / budget));
    return drawable().reduce((best, cell) => (far(cell) < far(best) ? cell : best));
  }

  function write(id, text) {
    if (byId(id)) byId(id).textContent = text;
  }

  function show(cell, instead = "") {
    current = cell;
    write("nearest", "");
    verdict = instead;
    slider.value = cell.budget === null ? (cell.outside === "inf" ? slider.max : slider.min) : Math.log10(cell.budget);
    slider.setAttribute("aria-valuetext", `ε = ${cell.epsilon}`);
    if (document.activeElement !== number) number.value = typed(cell);
    for (const id of ["epsilon", "record_epsilon", "sentence", "loss"]) write(id, cell[id]);
    write("fact", cell.face_value ?? "");
    for (const part of document.querySelectorAll("[data-cost-type]")) {
      part.textContent = cell.cost_type;
      part.className = `tag ${cell.cost_type}`;
    }
    write("interval", cell.interval ?? "not computed");
    write("accuracy", cell.accuracy ?? "–");
    write("expected_accuracy", cell.expected_accuracy ?? "–");
    for (const part of document.querySelectorAll("[data-gap]")) {
      const [shown, expected] = [cell[part.dataset.gap], cell[`expected_${part.dataset.gap}`]];
      part.hidden = shown === null;
      write(part.dataset.gap, shown ?? "–");
      write(`expected_${part.dataset.gap}`, expected ?? "–");
      byId(`expected_${part.dataset.gap}`).parentElement.hidden = expected === null;
    }
    if (isDecision) showRisk(cell);
    tell();
    for (const plot of drawn()) plot.view.signal("chosen_epsilon", cell.budget).run();
    mark();
  }

  // The large type, and whether the words on the limits are of the budget shown.
  function tell() {
    const isSolved = solved !== null && solved.cell === current;
    // A budget that the limits lead to is the answer, even if its cost is not known.
    const instead = verdict || (current.trusted || isSolved ? "" : "no estimate");
    write("verdict", instead);
    byId("verdict").hidden = instead === "";
    byId("named").hidden = instead !== "";
    byId("fact").hidden = instead !== "" || !current.face_value;
    byId("big").classList.toggle("faint", instead !== "" || (isSolved && solved.isDoubtful));
    byId("looking").hidden = instead === "" || !current.trusted;
    write("looked", `ε = ${current.epsilon}`);
    byId("outside").hidden = current.outside === null;
    byId("recommended").hidden = instead !== "" || isChanged() || page.recommended !== keyOf(current) || group !== page.start.group;
    const words = byId("within");
    if (!words || solved === null) {
      if (byId("elsewhere")) byId("elsewhere").hidden = true;
      return;
    }
    const stale = solved.cell !== null && !isSolved;
    const isChoice = !isDecision || group === page.everybody;
    const text = solved.words + (solved.words && stale && isChoice ? " The budget shown is another." : "");
    if (words.textContent !== text) words.textContent = text;
    if (!byId("reset")) return;
    byId("reset").hidden = !stale && !isChanged();
    // Not spoken: the sentence below is, at every step.
    byId("elsewhere").hidden = !stale || solved.words !== "";
  }

  function showRisk(cell) {
    const risk = cell.risk;
    for (const part of document.querySelectorAll("[data-risk]")) {
      const other = { held: !risk?.held, ceiling: risk?.is_open, open: !risk?.is_open, attacked: !risk?.is_attacked, unattacked: risk?.is_attacked }[part.dataset.risk] ?? false;
      part.hidden = risk === null || other;
    }
    byId("no-risk").hidden = risk !== null;
    for (const id of ["guessed", "before", "exposed", "chance"]) write(id, risk?.[id] ?? "–");
    write("guessed_range", risk?.range ?? "not computed");
    write("held_rate", risk?.held ?? "–");
    write("held_range", risk?.held_range ?? "not computed");
    write("ceiling", risk?.ceiling ?? "–");
    write("baseline", risk?.before ?? "–");
    write("advantage", risk?.advantage ?? "–");
    // What is written for one budget of everyone is never left standing beside another.
    const paragraph = cell.paragraph ?? null;
    byId("paragraph").hidden = paragraph === null;
    byId("no-paragraph").hidden = paragraph !== null;
    write("assessment", paragraph ?? "");
    write("assessed", cell.epsilon);
    write("copied", "");
    byId("held").hidden = !cell.holder;
    write("holder", cell.holder ?? "");
  }

  function mark() {
    for (const row of document.querySelectorAll("tr[aria-current]")) row.removeAttribute("aria-current");
    const region = [...document.querySelectorAll("[data-group]")].find((part) => part.dataset.group === group);
    region.querySelectorAll("tbody tr")[page.groups[group].indexOf(current)].setAttribute("aria-current", "true");
  }

  function step(by) {
    const cells = drawable();
    const at = { inf: cells.length, 0: -1 }[current.outside] ?? cells.indexOf(current);
    show(cells[Math.min(Math.max(at + by, 0), cells.length - 1)]);
  }

  function setSlider() {
    const budgets = drawable().map((cell) => Math.log10(cell.budget));
    slider.min = Math.min(...budgets);
    slider.max = Math.max(...budgets);
    byId("slides").hidden = budgets.length < 2;
  }

  // --- Where things stand on the screen ---

  const corner = (plot) => {
    const box = plot.place.querySelector("svg").getBoundingClientRect();
    return [box.left + plot.view.padding().left, box.top + plot.view.padding().top];
  };

  function fit(plot) {
    const padding = plot.view.padding();
    return plot.view.width(Math.max(plot.place.clientWidth - padding.left - padding.right, 80));
  }

  // The thumb stands under the line in the chart, and each handle at its dashed line.
  function align() {
    const { view, place } = plots.cost;
    if (!view) return;
    const scale = view.scale("x");
    const plot = corner(plots.cost)[0] - place.getBoundingClientRect().left;
    const [start, end] = [slider.min, slider.max].map((power) => plot + scale(10 ** Number(power)));
    byId("slide").style.marginLeft = `${start - THUMB / 2}px`;
    byId("slide").style.width = `${end - start + THUMB}px`;
    for (const limit of Object.values(limits)) placeGrip(limit);
    page.others.forEach((range, place) => placeOther(range, place, (epsilon) => plot + scale(epsilon)));
  }

  // What others chose stands above the charts, as far as the axis goes.
  function placeOther([low, high], place, across) {
    const row = document.querySelector(`[data-other="${place}"]`);
    const [first, last] = plots.cost.view.scale("x").domain();
    const [mark, name] = row.children;
    row.hidden = high < first || low > last;
    const [start, end] = [across(Math.max(low, first)), across(Math.min(high, last))];
    Object.assign(mark.style, { left: `${start}px`, width: `${end - start}px` });
    name.style.right = `calc(100% - ${start - 8}px)`;
  }

  function lineOf(limit) {
    const { view, shown } = limit.plot;
    const value = read(limit);
    if (!view || shown !== limit.belongs || typeof value !== "number") return null;
    const y = view.scale("y")(value);
    return y >= -1 && y <= view.height() + 1 ? y : null;
  }

  function placeGrip(limit) {
    if (!limit.grip || !limit.box) return;
    const y = lineOf(limit);
    limit.grip.hidden = y === null;
    if (y !== null) limit.grip.style.top = `${y + limit.plot.view.padding().top}px`;
  }

  // --- From limits to a budget ---

  // A number, null where nothing is typed, or undefined where it cannot be used.
  const read = (limit) => (limit.box ? typedNumbers.read(limit.box) : null);

  function advantageLimit(loss, rate) {
    if (!isDecision) return null;
    return decisionRule.advantageLimit({ loss, rate, own: page.max_advantage, usual: page.default_advantage });
  }

  function solution(loss, rate) {
    const everybody = isDecision && group === page.everybody;
    const cells = everybody ? page.groups[group].filter((cell) => cell.risk !== null) : page.groups[group];
    return decisionRule.solve(cells, {
      loss, rate: everybody && rate !== null ? rate / 100 : null,
      advantage: everybody ? advantageLimit(loss, rate) : null, measuredCounts: measuredCounts?.checked ?? false,
      hasFewRuns: page.fewest_runs !== null,
    });
  }

  function whom() {
    return byId("group") ? ` for ${byId("group").selectedOptions[0].textContent}` : "";
  }

  function lossWords(found) {
    if (isDecision) {
      const only = `If only ${byId("group").selectedOptions[0].textContent} were randomised, `;
      const met = found.cell === null ? "no ε would keep the limit on the loss." : `the limit on the loss would be met from ε = ${found.cell.epsilon} up.`;
      return `${only}${met} The recommendation is for everyone; the attack was measured for everyone only.`;
    }
    if (found.cell === null) return `No budget computed here keeps its 9-in-10 range within it${whom()}.`;
    return `The smallest budget whose 9-in-10 range stays within it${whom()} is ε = ${found.cell.epsilon}.`;
  }

  function decisionWords(found) {
    const { cell, least, most, cells } = found;
    const shown = (one) => `ε = ${one.epsilon}`;
    const proof = (one) => one.risk.proof;
    const isDefault = found.advantage !== null && page.max_advantage === null;
    const ours = isDefault ? ", our default; you gave none" : "";
    if (cell === null) {
      if (found.hasLoss && least === null) {
        const known = cells.filter((one) => one.high !== null);
        if (!known.length) return "No ε keeps the limit on the loss: its range was not computed.";
        const miss = known.reduce((best, one) => (one.high < best.high ? one : best));
        return `No ε keeps the limit on the loss; the nearest miss is ${shown(miss)}, where one release may show ${miss.high_text}.`;
      }
      if (most === null) {
        const limit = found.advantage === null ? "the limit on the attack" : `an advantage of at most ${found.advantage}${ours}`;
        return `No ε keeps ${limit}; the nearest miss is ${shown(cells[0])}, where ${proof(cells[0])}.`;
      }
      return `No ε keeps both limits: the loss asks for ${shown(least)} or more, where ${proof(least)}; the attack asks for ${shown(most)} or less (loss up to ${most.high_text ?? "an unknown rise"}).`;
    }
    const why = found.hasLoss && found.hasAttack ? "the most private choice within both limits"
      : found.hasLoss ? "the most private choice within the limit on the loss"
        : found.advantage === null ? "the largest ε within the limit on the attack"
          : `the largest ε with an advantage of at most ${found.advantage}${ours}`;
    const parts = [`Use ${cell.spending}. It is ${why}.`];
    const smaller = cells[cells.indexOf(cell) - 1];
    if (found.hasLoss && smaller && !smaller.trusted) parts.push(`At ${shown(smaller)} the estimate failed its check and was not measured.`);
    if (!found.hasAttack) parts.push(`You set no limit on what an attacker gets: ${proof(cell)}.`);
    if (found.hasLoss && found.hasAttack && least !== most) parts.push(`Every ε from ${least.epsilon} to ${most.epsilon} meets both.`);
    if (found.rests === "proven") parts.push(`The attack limit is met by proof: ${proof(cell)}.`);
    if (found.rests === "measured") parts.push(`The attack limit is met only by the attack that was tried (measured), of ${page.attacker}. A better attack may exist: ${proof(cell)}.`);
    if (!cell.trusted) parts.push("What it costs is not known: the estimate failed its own check.");
    return parts.join(" ");
  }

  function setLines({ room }) {
    for (const limit of Object.values(limits)) {
      const { view, shown } = limit.plot;
      if (!view || shown !== limit.belongs || !limit.box) continue;
      const value = read(limit) ?? null;
      view.signal(limit.signal, value);
      if (room) view.signal(`${limit.signal}_room`, value);
      view.run();
      placeGrip(limit);
    }
  }

  function solve({ move = true, room = true } = {}) {
    setLines({ room });
    const words = byId("within");
    if (!words) return;
    const [loss, rate] = [limits.accepted, limits.feared].map((limit) => (limit.box ? typedNumbers.tell(limit.box) : null));
    const changed = isChanged();
    // Under other limits the document's own recommendation is named, not repeated.
    if (byId("own-limits")) {
      byId("own-limits").hidden = !changed;
      for (const id of ["advice", "advice-title"]) byId(id).hidden = changed;
      const advantage = loss === undefined || rate === undefined ? null : advantageLimit(loss, rate);
      byId("by-advantage").hidden = advantage === null;
      write("by-advantage", `, with an advantage of at most ${advantage}${page.max_advantage === null ? " (our default)" : ""}`);
    }
    for (const part of document.querySelectorAll(".first-limits")) part.hidden = !changed;
    if (byId("reset")) byId("reset").hidden = !changed;
    delete words.dataset.solved;
    if (loss === undefined || rate === undefined) {
      solved = null;
      words.textContent = "";
      tell();
      return;
    }
    const found = solution(loss, rate);
    if (found !== null) words.dataset.solved = found.cell === null ? "none" : String(keyOf(found.cell));
    // The limits of the document lead to what the document says.
    const isFirst = !changed && group === page.start.group && page.start.decided;
    const said = found === null || (isFirst && isDecision) ? "" : wordsFor(found);
    if (isFirst) {
      const first = startCell();
      solved = { cell: page.start.verdict ? null : isDecision ? first : found?.cell ?? first, words: said, isDoubtful: page.start.doubtful };
      if (move || page.start.verdict) show(move ? first : current, page.start.verdict);
    } else {
      solved = { cell: found?.cell ?? null, words: said, isDoubtful: false };
      if (found !== null && found.cell === null) show(onAxis(), "no ε");
      else if (found !== null && move) show(found.cell);
      else if (verdict) show(current);
    }
    tell();
  }

  function wordsFor(found) {
    if (found.unsure) return `Fewer than ${page.fewest_runs} retrainings a cell are too few to be sure, so no ε is recommended. ε = ${found.unsure.epsilon} would be the most private choice within the limits.`;
    if (!isDecision) return lossWords(found);
    return group === page.everybody ? decisionWords(found) : lossWords(found);
  }

  const onAxis = () => (current.budget === null ? nearest(page.start.epsilon) : current);
  const startCell = () => page.groups[page.start.group].find((cell) => cell.outside !== null && cell.outside === page.start.outside) ?? nearest(page.start.epsilon);

  // --- Drawing ---

  async function draw(plot) {
    const spec = plot.specs[plot.shown];
    const result = await vegaEmbed(plot.place, spec, { mode: "vega", renderer: "svg", actions: false, ast: true });
    plot.view = result.view;
    plot.view.signal("chosen_epsilon", current.budget);
    await fit(plot).runAsync();
    plot.caption.textContent = plot.captions[plot.shown];
    plot.picture.setAttribute("aria-label", spec.description);
    for (const name of Object.keys(plot.specs)) document.querySelector(`[data-key=${name}]`).hidden = name !== plot.shown;
    setLines({ room: true });
    align();
    if (Object.values(plots).every((one) => one.view || !one.place)) {
      document.documentElement.dataset.ready = [plots.cost, plots.risk].filter((one) => one.view).map((one) => one.shown).join(" ");
    }
  }

  function chooseGroup(name) {
    group = name;
    for (const part of document.querySelectorAll("[data-group]")) part.hidden = part.dataset.group !== group;
    solved = null;
    setSlider();
    if (current === null) show(startCell(), page.start.verdict);
    else show(nearest(current.budget ?? page.start.epsilon));
    align();
    solve({ move: false });
  }

  slider.addEventListener("input", () => show(nearest(10 ** Number(slider.value))));
  slider.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -5, PageUp: 5, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    step(by);
  });
  number.addEventListener("input", () => {
    const wanted = typedNumbers.tell(number);
    if (typeof wanted !== "number") return;
    const cell = nearest(wanted);
    show(cell);
    if (Math.abs(cell.budget / wanted - 1) > 0.005) byId("nearest").textContent = `Nearest computed budget: ε = ${cell.epsilon}.`;
  });
  number.addEventListener("blur", () => {
    const isWrong = typedNumbers.read(number) === undefined;
    number.value = typed(current);
    if (isWrong) typedNumbers.tell(number);
  });
  for (const limit of Object.values(limits)) limit.box?.addEventListener("input", () => solve());
  measuredCounts?.addEventListener("change", () => solve());
  byId("reset")?.addEventListener("click", () => {
    for (const limit of Object.values(limits)) if (limit.box) limit.box.value = limit.first;
    measuredCounts.checked = measuredCounts.defaultChecked;
    if (byId("group")) byId("group").value = page.start.group;
    chooseGroup(page.start.group);
    show(startCell(), page.start.verdict);
    (limits.accepted.box ?? slider).focus();
  });
  byId("group")?.addEventListener("change", (event) => chooseGroup(event.target.value));
  byId("others")?.addEventListener("change", (event) => {
    for (const id of ["others-note", "others-marks"]) byId(id).hidden = !event.target.checked;
    align();
  });
  for (const [name, plot] of [["outcome", plots.cost], ["attack", plots.risk]]) {
    for (const choice of document.querySelectorAll(`input[name=${name}]`)) {
      choice.addEventListener("change", () => { plot.shown = choice.value; draw(plot); });
    }
  }

  // --- Dragging: a dashed line if one is near, else the line of ε ---

  let dragged = null;

  function limitNear(plot, event) {
    return Object.values(limits).find((limit) => {
      if (limit.plot !== plot || !limit.box) return false;
      if (event.target === limit.grip) return true;
      const y = lineOf(limit);
      return y !== null && event.pointerType === "mouse" && Math.abs(event.clientY - corner(plot)[1] - y) < NEAR;
    });
  }

  function follow(plot, event) {
    const cell = nearest(plot.view.scale("x").invert(event.clientX - corner(plot)[0]));
    if (cell !== current || verdict) show(cell);
  }

  function pull(event) {
    const { limit, scale, plot } = dragged;
    const y = Math.min(Math.max(event.clientY - corner(plot)[1], 0), plot.view.height());
    const text = typedNumbers.onStep(Math.min(Math.max(scale.invert(y), limit.least), limit.most), limit.step);
    if (Number(text) === read(limit)) return;
    limit.box.value = text;
    solve({ room: false });
  }

  for (const plot of Object.values(plots)) {
    if (!plot.picture) continue;
    plot.picture.addEventListener("pointerdown", (event) => {
      if (!plot.view || event.button !== 0) return;
      const limit = limitNear(plot, event);
      dragged = { plot, limit, scale: limit && plot.view.scale("y").copy() };
      if (limit) {
        event.preventDefault();
        plot.picture.setPointerCapture(event.pointerId);
      } else follow(plot, event);
    });
    plot.picture.addEventListener("pointermove", (event) => {
      if (!plot.view) return;
      if (event.buttons !== 1) plot.picture.classList.toggle("near", Boolean(limitNear(plot, event)));
      else if (dragged?.limit) pull(event);
      else follow(plot, event);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      plot.picture.addEventListener(end, () => {
        if (dragged?.limit) solve({ move: false });
        dragged = null;
      });
    }
    new ResizeObserver(() => { if (plot.view) { fit(plot).run(); align(); } }).observe(plot.place ?? plot.picture);
  }

  // --- Taking something away ---

  function save(address, name) {
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }
  const saveText = (text, kind, name) => save(URL.createObjectURL(new Blob([text], { type: kind })), name);

  // The picture for readers without scripts is complete in itself: title, legend and all.
  const still = () => new DOMParser().parseFromString(byId("still").textContent, "text/html").querySelector("svg");

  byId("download").addEventListener("click", () => {
    const text = JSON.stringify(JSON.parse(byId("document").textContent), null, 2);
    saveText(`${text}\n`, "application/json", `epsilens-${page.kind}.json`);
  });
  byId("save-svg").addEventListener("click", () => {
    saveText(new XMLSerializer().serializeToString(still()), "image/svg+xml", `epsilens-${page.kind}.svg`);
  });
  byId("save-png").addEventListener("click", async () => {
    const picture = still();
    const [width, height] = ["width", "height"].map((name) => 2 * picture.getAttribute(name));
    const image = new Image();
    image.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(picture))}`;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    canvas.getContext("2d").drawImage(image, 0, 0, width, height);
    canvas.toBlob((blob) => save(URL.createObjectURL(blob), `epsilens-${page.kind}.png`));
  });
  for (const button of document.querySelectorAll("[data-copies]")) {
    button.addEventListener("click", async () => {
      const source = byId(button.dataset.copies);
      let done = true;
      try {
        await navigator.clipboard.writeText(source.textContent);
      } catch {
        // A browser that gives no clipboard to files still copies what is selected.
        getSelection().selectAllChildren(source);
        done = document.execCommand("copy");
      }
      button.nextElementSibling.textContent = done ? "Copied." : "It is selected: copy it by the keyboard.";
    });
  }

  chooseGroup(group);
  for (const plot of Object.values(plots)) if (plot.place) draw(plot);
})();
