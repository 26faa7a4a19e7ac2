// What every page shares. No function here reads markup from data: text goes in as text.
//
//   api(method, path, body?, {signal}?)  JSON (or text) of an answer; throws an ApiError with the server's message
//   ApiError                             .message, .status, .code, .details (a line for each thing wrong)
//   h(tag, attributes?, ...children)     an HTML element; children are nodes or text; `on…` attributes are listeners
//   s(tag, attributes?, ...children)     the same for SVG
//   fill(host, ...children)              replaces what an element holds
//   number(x, digits = 3)                a number for people: 1,887  568.5  32.2  0.0353  0
//   percent(p)                           0.125 -> "12.5 %"
//   listing(words)                       ["a", "b", "c"] -> "a, b and c"
//   later(ms, f)                         f, called once the calls have stopped for a while
//   say(host, text, kind?)               a line that screen readers announce; kind "error", "good" or ""
//   keep(text, name, type)               offers text as a file to download
//   data(id)                             the JSON of <script type="application/json" id=…>

export class ApiError extends Error {
  constructor(message, { status = 0, code = "error", details = [] } = {}) {
    super(message);
    Object.assign(this, { name: "ApiError", status, code, details });
  }
}

export async function api(method, path, body, { signal } = {}) {
  let response;
  try {
    const sent = body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    response = await fetch(path, { method, signal, credentials: "same-origin", ...sent });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("the server does not answer; is it still running?", { code: "unreachable" });
  }
  const json = (response.headers.get("Content-Type") || "").startsWith("application/json");
  const answer = json ? await response.json().catch(() => null) : await response.text();
  if (response.ok) return answer;
  const error = (json && answer && answer.error) || {};
  throw new ApiError(error.message || `the server answered ${response.status}`, { status: response.status, ...error });
}

const SVG = "http://www.w3.org/2000/svg";

export const h = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => build(document.createElementNS(SVG, tag), attributes, children);

function build(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "colour") element.style.setProperty("--colour", value); // by CSSOM: the policy allows no style attributes
    else if (key in element && typeof value === "boolean") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function fill(host, ...children) {
  host.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return host;
}

export function number(x, digits = 3) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  if (size >= 1e15 || (size > 0 && size < 1e-6)) return x.toExponential(2);
  if (size >= 1000) return x.toLocaleString("en", { maximumFractionDigits: 0 });
  if (size >= 100) return x.toFixed(1).replace(/\.0$/, "");
  return String(Number(x.toPrecision(digits)));
}

export const percent = (p) => `${number(100 * p)} %`;

export function listing(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

export function later(ms, f) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => f(...given), ms);
  };
}

export function say(host, text, kind = "") {
  host.setAttribute("aria-live", "polite");
  host.className = `says ${kind}`.trim();
  host.textContent = text;
}

export function keep(text, name, type = "text/plain") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export const data = (id) => JSON.parse(document.getElementById(id).textContent);
