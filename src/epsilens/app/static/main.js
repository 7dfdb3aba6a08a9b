// SPDX-License-Identifier: Apache-2.0
// Which part of the page is shown: the address says it, so that every tab and reload knows.
import { alarm, byId, get, save } from "./api.js";
import * as asking from "./asking.js";
import * as listing from "./listing.js";
import * as showing from "./showing.js";

const parts = { asking, showing, listing };
let session = null;

async function route() {
  const [, name = "", id = ""] = location.hash.split("/");
  const shown = name === "study" ? "showing" : name === "studies" ? "listing" : "asking";
  alarm(null);
  for (const part of Object.keys(parts)) {
    byId(part).hidden = part !== shown;
    if (part !== shown) parts[part].leave?.();
  }
  for (const link of document.querySelectorAll(".bar a:not(.brand)")) {
    const isHere = link.getAttribute("href") === (shown === "listing" ? "#/studies" : "#/") && shown !== "showing";
    if (isHere) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  try {
    session ??= await get("/api/session");
    await parts[shown].enter(session, name === "again" || shown === "showing" ? id : null);
    const studies = await get("/api/studies");
    byId("how-many").textContent = studies.length ? `(${studies.length})` : "";
  } catch (error) {
    alarm(error.message);
    if (error.status === undefined) throw error;
  }
  document.documentElement.dataset.at = shown;
}

for (const link of document.querySelectorAll("a[download]")) link.addEventListener("click", save);
addEventListener("hashchange", route);
await route();
