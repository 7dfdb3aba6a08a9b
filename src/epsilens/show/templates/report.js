// SPDX-License-Identifier: Apache-2.0
// The page looks numbers up, compares limits with them and moves lines; it rounds nothing.
"use strict";
(() => {
  const { page, byId, write } = firstScreen;
  const [slider, number] = ["slider", "number"].map(byId);
  const isDecision = page.kind === "decision";
  // Beside other mechanisms the first screen is theirs, and here are only the budgets of randomised response.
  const isAside = page.mechanism_charts !== undefined && page.mechanisms.length > 0;
  const THUMB = 24;
  // On a phone a chart leaves room for the question and the answer.
  const LOW = 230;
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
  plots.cost.shown = page.limits.outcome;
  const drawn = () => Object.values(plots).filter((plot) => plot.view);

  // The limits: typed or dragged, each a dashed line in one chart.
  const limits = {
    accepted: { box: isAside ? null : firstScreen.cost, plot: plots.cost, signal: "accepted_loss", least: 0, most: Infinity },
    feared: { box: isAside ? null : firstScreen.attack, plot: plots.risk, signal: "feared_rate", least: 0.5, most: 99.5 },
  };
  for (const [name, limit] of Object.entries(limits)) limit.grip = document.querySelector(`[data-limit=${name}]`);
  // A limit is drawn in the chart of its own unit, and the attack limit as a share of all answers.
  limits.accepted.isDrawn = () => plots.cost.shown === firstScreen.cost?.dataset.kind;
  limits.accepted.onAxis = limits.accepted.typed = (value) => value;
  limits.feared.isDrawn = () => plots.risk.shown === "answer";
  limits.feared.onAxis = (value) => (firstScreen.attackKind.value === "rate" ? value : firstScreen.share(value, "rate"));
  limits.feared.typed = (value) => (firstScreen.attackKind.value === "rate" ? value : firstScreen.share(value, "advantage"));
  const measuredCounts = byId("measured");

  const drawable = () => page.groups[group].filter((cell) => cell.budget !== null);

  // Budgets outside the axis, as infinity, have no number there.
  const keyOf = (cell) => cell.budget ?? cell.outside;
  const isChanged = () => !isAside && (firstScreen.isChanged() ||
    (measuredCounts !== null && measuredCounts.checked !== measuredCounts.defaultChecked));
  const typed = (cell) => (cell.budget === null ? "" : cell.epsilon);

  function nearest(budget) {
    const far = (cell) => Math.abs(Math.log(cell.budget / budget));
    return drawable().reduce((best, cell) => (far(cell) < far(best) ? cell : best));
  }

  function show(cell, instead = "") {
    current = cell;
    write("nearest", "");
    verdict = instead;
    slider.value = cell.budget === null ? (cell.outside === "inf" ? slider.max : slider.min) : Math.log10(cell.budget);
    slider.setAttribute("aria-valuetext", `ε = ${cell.epsilon}`);
    if (document.activeElement !== number) number.value = typed(cell);
    for (const id of ["epsilon", "record_epsilon", "loss"]) write(id, cell[id]);
    write("long-sentence", cell.long_sentence);
    write("sentence", sentenceOf(cell));
    write("figures-title", `All numbers${isAside ? " of randomised response" : ""} at ε = ${cell.epsilon}`);
    if (!isAside) firstScreen.showFacts(cell.facts);
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

  // The document's own words where its own limits hold, also those that no budget meets them.
  function sentenceOf(cell) {
    const isOwn = !isAside && isDecision && !isChanged() && group === page.start.group && (verdict ? verdict === page.start.verdict : page.recommended === keyOf(cell));
    if (isOwn) return page.own_sentence;
    if (!isAside && verdict && solved?.words.length) return solved.words[0];
    return (!isAside && firstScreen.attackKind?.value === "rate" && cell.rate_sentence) || cell.sentence;
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
    if (byId("looking")) byId("looking").hidden = instead === "" || !current.trusted;
    write("looked", `ε = ${current.epsilon}`);
    byId("outside").hidden = current.outside === null;
    if (byId("recommended")) byId("recommended").hidden = instead !== "" || isChanged() || page.recommended !== keyOf(current) || group !== page.start.group;
    const words = isAside ? null : byId("within");
    if (!words || solved === null) {
      if (byId("elsewhere")) byId("elsewhere").hidden = true;
      return;
    }
    const stale = solved.cell !== null && !isSolved;
    const isChoice = !isDecision || group === page.everybody;
    // Where none will do, the sentence in large type says so.
    const text = (verdict ? solved.words.slice(1) : [...solved.words, stale && isChoice && solved.words.length ? "The budget shown is another." : ""]).filter(Boolean).join(" ");
    if (words.textContent !== text) words.textContent = text;
    byId("reset").hidden = !stale && !isChanged();
    // Not spoken: the sentence below is, at every step.
    byId("elsewhere").hidden = !stale || text !== "";
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
    if (isAside) return;
    if (byId("held")) byId("held").hidden = !cell.holder;
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

  // Lines are named beside their ends where there is room; else there is a key.
  const hasSignal = (plot, name) => plot.specs[plot.shown].signals.some((signal) => signal.name === name);

  function fit(plot) {
    const isBroad = plot.place.clientWidth > page.label_from;
    const padding = { ...plot.view.padding(), right: isBroad && page.has_labels ? page.label_room : page.edge };
    document.documentElement.classList.toggle("labelled", isBroad && page.has_labels);
    if (hasSignal(plot, "labelled")) plot.view.signal("labelled", isBroad && page.has_labels);
    plot.height ??= plot.view.height();
    plot.view.height(isBroad ? plot.height : Math.min(plot.height, LOW));
    return plot.view.padding(padding).width(Math.max(plot.place.clientWidth - padding.left - padding.right, 80));
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
    const { view } = limit.plot;
    const value = read(limit);
    if (!view || !limit.isDrawn() || typeof value !== "number") return null;
    const y = view.scale("y")(limit.onAxis(value));
    return y >= -1 && y <= view.height() + 1 ? y : null;
  }

  function placeGrip(limit) {
    if (!limit.grip || !limit.box) return;
    const y = lineOf(limit);
    limit.grip.hidden = y === null;
    if (y !== null) Object.assign(limit.grip.style, { top: `${y + limit.plot.view.padding().top}px`, right: `${limit.plot.view.padding().right}px` });
  }

  // --- From limits to a budget ---

  // A number, null where nothing is typed, or undefined where it cannot be used.
  const read = (limit) => (limit.box ? typedNumbers.read(limit.box) : null);

  function solution(found) {
    const everybody = isDecision && group === page.everybody;
    const cells = everybody ? page.groups[group].filter((cell) => cell.risk !== null) : page.groups[group];
    return decisionRule.solve(cells, {
      cost: found.cost, attack: everybody ? found.attack : null, measuredCounts: measuredCounts?.checked ?? false,
      hasFewRuns: page.fewest_runs !== null, trust: page.trust,
    });
  }

  function whom() {
    return byId("group") ? ` for ${byId("group").selectedOptions[0].textContent}` : "";
  }

  // What the limits lead to, in a sentence, and more about it.
  function lossWords(found) {
    if (isDecision) {
      const only = `If only ${byId("group").selectedOptions[0].textContent} were randomised, `;
      const met = found.cell === null ? "no ε would meet the limit on the cost." : `the limit on the cost would be met from ε = ${found.cell.epsilon} up.`;
      return [`${only}${met}`, "The recommendation is for everyone. The attack was measured for everyone only."];
    }
    if (found.cell === null) return [`No ε computed here keeps its 9-in-10 range within the limit${whom()}.`, ""];
    return [`The smallest ε whose 9-in-10 range stays within the limit${whom()} is ε = ${found.cell.epsilon}.`, ""];
  }

  function decisionWords(found) {
    const { cell, least, cost, attack, cells } = found;
    const shown = (one) => `ε = ${one.epsilon}`;
    const proof = (one) => one.risk.proof[attack?.kind ?? "advantage"];
    const ours = attack?.isDefault ? ", our default; you gave none" : "";
    const gain = attack?.kind === "advantage" ? `an advantage of at most ${100 * attack.limit}%${ours}` : "the limit on the attack";
    if (cell === null) {
      if (cost && least === null) {
        const known = cells.filter((one) => one[cost.end] !== null);
        if (!known.length) return ["No ε meets the limit on the cost: its range was not computed.", ""];
        const miss = known.reduce((best, one) => (one[cost.end] < best[cost.end] ? one : best));
        return [`No ε meets the limit on the cost. The nearest miss is ${shown(miss)}, where one release ${miss.release[cost.kind]}.`, ""];
      }
      if (found.most === null) return [`No ε meets ${gain}. The nearest miss is ${shown(cells[0])}.`, `At ${shown(cells[0])}, ${proof(cells[0])}.`];
      return [
        `No ε meets both limits. The cost asks for ${shown(least)} or more, the attack for ${shown(found.most)} or less.`,
        `At ${shown(least)}, ${proof(least)}. At ${shown(found.most)} one release ${found.most.release[cost.kind]}.`,
      ];
    }
    const why = cost && attack ? "the most private choice within both limits"
      : cost ? "the most private choice within the limit on the cost"
        : attack.kind === "rate" ? "the largest ε within the limit on the attack" : `the largest ε with ${gain}`;
    const parts = [`Use ${cell.spending}. It is ${why}.`];
    const smaller = cells[cells.indexOf(cell) - 1];
    if (cost && smaller && !smaller.trusted) parts.push(`At ${shown(smaller)} the estimate failed its check and was not measured.`);
    if (!attack) parts.push(`You set no limit on what an attacker gets: ${proof(cell)}.`);
    if (cost && attack && least !== found.most) parts.push(`Every ε from ${least.epsilon} to ${found.most.epsilon} meets both.`);
    if (found.rests === "proven") parts.push("The attack limit is met by proof.");
    if (found.rests === "measured") parts.push(`The attack limit is met only by the attack that was tried (measured), of ${page.attacker}. A better attack may exist: ${proof(cell)}.`);
    if (!cell.trusted) parts.push("What it costs is not known: the estimate failed its own check.");
    return [parts.join(" "), ""];
  }

  function setLines({ room }) {
    for (const limit of Object.values(limits)) {
      const { view } = limit.plot;
      if (!view || !limit.box || !hasSignal(limit.plot, limit.signal)) continue;
      const value = limit.isDrawn() ? read(limit) ?? null : null;
      view.signal(limit.signal, value === null ? null : limit.onAxis(value));
      view.signal(`${limit.signal}_words`, value === null ? "" : limitWords(limit, value));
      if (room) view.signal(`${limit.signal}_room`, value === null ? null : limit.onAxis(value));
      view.run();
      placeGrip(limit);
    }
  }

  const limitWords = (limit, value) => (limit === limits.feared ? `limit ${value}%${firstScreen.attackKind.value === "rate" ? "" : " become guessable"}` : `limit ${value}`);

  function solve({ move = true, room = true } = {}) {
    setLines({ room });
    const words = isAside ? null : byId("within");
    if (!words) return;
    const asked = firstScreen.read();
    const changed = isChanged();
    // Under other limits the document's own recommendation is named, not repeated.
    if (byId("own-limits")) {
      byId("own-limits").hidden = !changed;
      for (const id of ["own-advice", "advice-title"]) byId(id).hidden = changed;
    }
    for (const part of document.querySelectorAll(".first-limits")) part.hidden = !changed;
    byId("reset").hidden = !changed;
    delete words.dataset.solved;
    if (asked === undefined) {
      solved = { cell: null, words: ["Nothing is recommended while a limit cannot be used as it is typed."], isDoubtful: false };
      show(onAxis(), "no ε");
      return;
    }
    const found = solution(asked);
    if (found !== null) words.dataset.solved = found.cell === null ? "none" : String(keyOf(found.cell));
    // The limits of the document lead to what the document says.
    const isFirst = !changed && group === page.start.group && page.start.decided;
    const said = found === null || isFirst ? [] : wordsFor(found);
    if (isFirst) {
      const first = startCell();
      solved = { cell: page.start.verdict ? null : first, words: said, isDoubtful: page.start.doubtful };
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
    if (found.unsure) {
      return [`Fewer than ${page.fewest_runs} retrainings a cell are too few to be sure, so no ε is recommended.`,
        `ε = ${found.unsure.epsilon} would be the most private choice within the limits.`];
    }
    if (!isDecision) return lossWords(found);
    return group === page.everybody ? decisionWords(found) : lossWords(found);
  }

  const onAxis = () => (current.budget === null ? nearest(page.start.epsilon) : current);
  const startCell = () => page.groups[page.start.group].find((cell) => cell.outside !== null && cell.outside === page.start.outside) ?? nearest(page.start.epsilon);

  // --- Drawing ---

  async function draw(plot) {
    const spec = plot.specs[plot.shown];
    plot.isDrawing = true;
    const result = await vegaEmbed(plot.place, spec, { mode: "vega", renderer: "svg", actions: false, ast: true });
    plot.view = result.view;
    // The picture around it says in words what it shows.
    plot.place.querySelector("svg").setAttribute("aria-hidden", "true");
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
  if (!isAside) {
    firstScreen.onChange((how) => solve({ room: !how?.isDragged }));
    measuredCounts?.addEventListener("change", () => solve());
    byId("reset").addEventListener("click", () => {
      if (measuredCounts) measuredCounts.checked = measuredCounts.defaultChecked;
      if (byId("group")) byId("group").value = page.start.group;
      firstScreen.restore();
      showOutcome(page.limits.outcome);
      chooseGroup(page.start.group);
      show(startCell(), page.start.verdict);
      (limits.accepted.box ?? slider).focus();
    });
  }
  byId("group")?.addEventListener("change", (event) => chooseGroup(event.target.value));
  byId("others")?.addEventListener("change", (event) => {
    for (const id of ["others-note", "others-marks"]) byId(id).hidden = !event.target.checked;
    align();
  });
  function showOutcome(name) {
    const choice = document.querySelector(`input[name=outcome][value=${name}]`);
    if (choice) choice.checked = true;
    if (!(name in plots.cost.specs) || plots.cost.shown === name) return;
    plots.cost.shown = name;
    draw(plots.cost);
  }
  for (const choice of document.querySelectorAll("input[name=outcome]")) {
    choice.addEventListener("change", () => {
      showOutcome(choice.value);
      if (!isAside && (choice.value === "mistakes" || choice.value === "loss")) firstScreen.setCostKind(choice.value);
    });
  }
  for (const choice of document.querySelectorAll("input[name=attack]")) {
    choice.addEventListener("change", () => { plots.risk.shown = choice.value; draw(plots.risk); });
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
    const { limit, scale, plot, top } = dragged;
    const y = Math.min(Math.max(event.clientY - top, 0), plot.view.height());
    firstScreen.drag(limit.box, limit.typed(scale.invert(y)), limit);
  }

  for (const plot of Object.values(plots)) {
    if (!plot.picture) continue;
    plot.picture.addEventListener("pointerdown", (event) => {
      if (!plot.view || event.button !== 0) return;
      const limit = limitNear(plot, event);
      // Words above the charts may move them meanwhile: what counts is where they were.
      dragged = { plot, limit, scale: limit && plot.view.scale("y").copy(), top: corner(plot)[1] };
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
    // In a part that is closed there is no place to draw.
    new ResizeObserver(() => {
      if (!plot.place.clientWidth) return;
      if (plot.view) { fit(plot).run(); align(); } else if (!plot.isDrawing) draw(plot);
    }).observe(plot.place);
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
  for (const plot of Object.values(plots)) if (plot.place?.clientWidth) draw(plot);
  if (isAside) document.documentElement.dataset.ready = plots.cost.shown;
})();
