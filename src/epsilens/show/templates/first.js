// SPDX-License-Identifier: Apache-2.0
// The first screen: the limits in the question, and the three facts of what is shown.
"use strict";
globalThis.firstScreen = (() => {
  const page = JSON.parse(document.getElementById("page-data").textContent);
  const byId = (id) => document.getElementById(id);
  // Inside the page of `epsilens serve` there is a strip above.
  document.documentElement.classList.toggle("framed", globalThis !== globalThis.top);
  const [cost, attack, attackKind] = ["accepted", "feared", "feared-kind"].map(byId);
  const first = { cost: page.limits.cost, costKind: page.limits.cost_kind, attack: page.limits.attack, attackKind: page.limits.attack_kind };
  const told = [];

  function write(id, text) {
    if (byId(id)) byId(id).textContent = text;
  }

  // The default of `decide`, where no limit is typed.
  const usual = { end: "advantage_value", limit: page.default_advantage, kind: "advantage", isDefault: true };

  // The limits as they are typed; undefined where one of them cannot be used. What is wrong is said beside its box.
  function read() {
    const numbers = [cost, attack].map((box) => (box ? typedNumbers.tell(box) : null));
    if (numbers.includes(undefined)) return undefined;
    const kind = attackKind?.value;
    const found = {
      cost: numbers[0] === null ? null : { end: cost.dataset.kind === "loss" ? "high" : "mistakes_high", limit: numbers[0], kind: cost.dataset.kind },
      attack: numbers[1] === null ? null : { end: kind === "rate" ? "ceiling_value" : "advantage_value", limit: numbers[1] / 100, kind, isDefault: false },
    };
    if (attack && found.cost === null && found.attack === null) found.attack = usual;
    // The box of a limit that nobody typed shows our default.
    const ours = kind === "rate" ? Math.ceil(100 * share(100 * usual.limit, kind)) / 100 : 100 * usual.limit;
    if (attack) attack.placeholder = found.attack?.isDefault ? String(ours) : "any share";
    if (byId("by-default")) byId("by-default").hidden = !(found.attack?.isDefault || (page.limits.is_default && found.attack?.kind === "advantage" && found.attack.limit === usual.limit));
    return found;
  }

  const same = (box, text) => !box || typedNumbers.read(box) === typedNumbers.parse(text);
  const isChanged = () => !same(cost, first.cost) || !same(attack, first.attack) ||
    (cost !== null && cost.dataset.kind !== first.costKind) || (attackKind !== null && attackKind.value !== first.attackKind);

  // A limit in other units is another limit.
  function setCostKind(kind, value = null) {
    if (!cost || (kind === cost.dataset.kind && value === null)) return;
    Object.assign(cost.dataset, { kind, step: page.steps[kind], expects: page.expects[kind] });
    cost.value = value ?? (kind === first.costKind ? first.cost : "");
    write("accepted-unit", page.units[kind]);
    tell();
  }

  // A share of the answers that other data do not give away is a share of all answers, and the other way about.
  const share = (percent, kind) => {
    const known = page.baseline;
    if (known === null || known >= 1) return percent;
    return kind === "rate" ? 100 * known + (1 - known) * percent : Math.max(0, (percent - 100 * known) / (1 - known));
  };

  function setAttackKind(kind) {
    attackKind.value = kind;
    const value = typedNumbers.read(attack);
    if (typeof value === "number") attack.value = kind === first.attackKind && attack.dataset.turned ? first.attack : String(Math.ceil(100 * share(value, kind)) / 100);
    attack.dataset.turned = "";
    tell();
  }

  function restore() {
    // The chart is in the unit of the limit.
    const choice = cost?.dataset.kind === first.costKind ? null : document.querySelector(`input[name=outcome][value=${page.limits.outcome}]`);
    if (choice) { choice.checked = true; choice.dispatchEvent(new Event("change", { bubbles: true })); }
    setCostKind(first.costKind, first.cost);
    if (attackKind) attackKind.value = first.attackKind;
    if (attack) attack.value = first.attack;
    tell();
  }

  const tell = (how) => { for (const call of told) call(how); };
  cost?.addEventListener("input", () => tell());
  attack?.addEventListener("input", () => { delete attack.dataset.turned; tell(); });
  attackKind?.addEventListener("change", () => setAttackKind(attackKind.value));

  // A limit that is dragged writes into its box; null empties it. While somebody drags, the axes stand still.
  function drag(box, value, { least, most }) {
    const step = Number(box.dataset.step);
    const text = value === null ? "" : typedNumbers.onStep(Math.min(Math.max(value, least), most), step);
    if (typedNumbers.parse(text) === typedNumbers.read(box)) return;
    box.value = text;
    tell({ isDragged: true });
  }

  function showFacts(facts) {
    for (const part of document.querySelectorAll("[data-fact]")) {
      const fact = facts.find((one) => one.key === part.dataset.fact);
      part.hidden = !fact;
      if (!fact) continue;
      part.querySelector(".text").textContent = fact.text;
      const tag = part.querySelector(".tag");
      Object.assign(tag, { textContent: fact.kind ?? "", className: `tag ${fact.kind ?? ""}`, hidden: !fact.kind });
      Object.assign(part.querySelector(".note"), { textContent: fact.note ?? "", hidden: !fact.note });
    }
  }

  // A part that holds what a link or a script leads to is opened for paper and closed again.
  const closed = [];
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details.printed:not([open])")) { part.open = true; closed.push(part); }
  });
  addEventListener("afterprint", () => { for (const part of closed.splice(0)) part.open = false; });

  return { page, byId, write, read, isChanged, restore, setCostKind, drag, showFacts, share, cost, attack, attackKind, onChange: (call) => told.push(call) };
})();
