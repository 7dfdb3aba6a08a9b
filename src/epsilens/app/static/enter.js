// SPDX-License-Identifier: Apache-2.0
// The link: its token stands in the fragment, which browsers send to nobody. It is exchanged for a
// cookie and a key, and leaves the address bar. It can be exchanged again, in any browser.
import { keepKey, post } from "./api.js";

// Gives why the link was refused; null where it was not, or where there was none.
export async function enter() {
  const token = location.hash.match(/^#token=(.*)$/)?.[1];
  if (token === undefined) return null;
  history.replaceState(null, "", "/");
  try {
    keepKey((await post("/api/enter", { token })).key);
    return null;
  } catch (error) {
    if (error.status !== 403) throw error;
    return error.message;
  }
}
