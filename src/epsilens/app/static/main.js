// SPDX-License-Identifier: Apache-2.0
// Which part of the page is shown: the address says it, so that every tab and reload knows.
import { alarm, byId, get, onNewKey, save } from "./api.js";
import * as asking from "./asking.js";
import { enter } from "./enter.js";
import * as listing from "./listing.js";
import * as showing from "./showing.js";

const parts = { asking, showing, listing };
let session = null;

async function route() {
  try {
    const refusal = await enter();
    session ??= await get("/api/session");
    await show();
    if (refusal) alarm(refusal);
  } catch (error) {
    if (error.status === 403 && session === null) turnAway();
    else alarm(error.message);
    if (error.status === undefined) throw error;
  }
}

async function show() {
  const [, name = "", id = ""] = location.hash.split("/");
  const shown = name === "study" ? "showing" : name === "studies" ? "listing" : "asking";
  alarm(null);
  byId("not-let-in").hidden = true;
  for (const part of Object.keys(parts)) {
    byId(part).hidden = part !== shown;
    if (part !== shown) parts[part].leave?.();
  }
  for (const link of document.querySelectorAll(".bar a:not(.brand)")) {
    const isHere = link.getAttribute("href") === (shown === "listing" ? "#/studies" : "#/") && shown !== "showing";
    if (isHere) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  try {
    await parts[shown].enter(session, name === "again" || shown === "showing" ? id : null);
    const studies = await get("/api/studies");
    byId("how-many").textContent = studies.length ? `(${studies.length})` : "";
  } finally {
    document.documentElement.dataset.at = shown;
  }
}

// A browser that has not opened the link, or that of an earlier start, is told what to do.
function turnAway() {
  alarm(null);
  for (const part of Object.keys(parts)) byId(part).hidden = true;
  byId("not-let-in").hidden = false;
  document.documentElement.dataset.at = "not-let-in";
}

for (const link of document.querySelectorAll("a[download]")) link.addEventListener("click", save);
addEventListener("hashchange", route);
onNewKey(() => { session = null; route(); });
await route();
