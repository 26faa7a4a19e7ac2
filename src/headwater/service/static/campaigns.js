// The list of campaigns, kept up: the page is asked for again every few seconds, and its list replaces this one.

import "./copy.js";
import { say } from "./lib.js";

const PAUSE = 4000;
const says = document.getElementById("says");
let shown = document.getElementById("campaigns").innerHTML;

async function refresh() {
  const host = document.getElementById("campaigns");
  const answer = await fetch("/", { headers: { Accept: "text/html" }, credentials: "same-origin", signal: AbortSignal.timeout(15000) });
  if (answer.redirected) return location.reload(); // signed out
  if (!answer.ok) throw new Error();
  const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("campaigns");
  if (found && found.innerHTML !== shown && !host.contains(document.activeElement)) {
    shown = found.innerHTML;
    for (const [i, fold] of host.querySelectorAll("details").entries()) found.querySelectorAll("details")[i]?.toggleAttribute("open", fold.open);
    host.replaceChildren(...document.importNode(found, true).childNodes);
  }
  return undefined;
}

async function loop() {
  if (!document.hidden) {
    try {
      await refresh();
      if (says.textContent) say(says, "");
    } catch {
      say(says, "Offline, trying again …", "error");
    }
  }
  setTimeout(loop, PAUSE);
}

setTimeout(loop, PAUSE);
document.body.dataset.ready = "yes";
