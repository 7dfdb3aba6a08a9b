// SPDX-License-Identifier: Apache-2.0
// The first visit: the key is kept where only pages of this address and port can read it.
const { key } = document.documentElement.dataset;
if (key) localStorage.setItem("epsilens-key", key);
location.replace("/");
