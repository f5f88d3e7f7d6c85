/* SPDX-License-Identifier: Apache-2.0 */
/* The pool's page: reads the JSON API again and again and draws what it says.  Text of
 * the pool (names, programs, words) becomes text nodes only, never markup. */
"use strict";

const EVERY_MS = 5000;
/* What is older is said to be. */
const OLD_MS = 10000;
const PAGE = { cards: 60, sessions: 100, events: 50, queue: 100, usage: 100 };
const ROWS_MAX = 500; /* the API's own limit of one page */

const byId = (id) => document.getElementById(id);
const rows = { cards: PAGE.cards, sessions: PAGE.sessions, events: PAGE.events };
const filters = { cards: {}, sessions: {} };
let span = "hour";
let timer = null;
let turns = 0; /* an answer to what was asked before the last turn is not drawn */

/* ---------------------------------------------------------------------- reading -- */

async function read(name, parameters) {
  const query = new URLSearchParams(parameters || {}).toString();
  const token = sessionStorage.getItem("token");
  const headers = token ? { Authorization: "Bearer " + token } : {};
  const answer = await fetch("api/v1/" + name + (query ? "?" + query : ""), { headers });
  const body = await answer.json();
  if (!answer.ok) {
    const error = new Error(body.error.message);
    error.status = answer.status;
    throw error;
  }
  return body;
}

/* As many rows as are wanted, over several pages where one is not enough. */
async function readRows(name, parameters, most) {
  let items = [];
  let next = "";
  for (let looks = 0; looks < 20; looks++) {
    const limit = Math.min(most - items.length, ROWS_MAX);
    const page = await read(name, { ...parameters, limit, ...(next ? { continue: next } : {}) });
    items = items.concat(page.items);
    next = page.continue;
    if (!next || items.length >= most) break;
  }
  return { items, more: Boolean(next) };
}

/* --------------------------------------------------------------------- elements -- */

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "class") made.className = value;
    else made.setAttribute(key, value);
  }
  for (const child of children) made.append(child);
  return made;
}

function size(bytes) {
  if (bytes === null) return "?"; /* its server has not reported to whoever answers */
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (bytes >= 1024 && at + 1 < units.length) {
    bytes /= 1024;
    at++;
  }
  return (bytes < 10 && at ? bytes.toFixed(1) : Math.round(bytes)) + " " + units[at];
}

const percent = (part, whole) => (part === null ? "?" : whole ? Math.round((100 * part) / whole) + " %" : "0 %");

function duration(ms) {
  const s = Math.round(ms / 1000);
  if (s < 120) return s + " s";
  if (s < 7200) return Math.round(s / 60) + " min";
  return s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " d";
}

function table(heads, lines, none) {
  if (!lines.length) return element("p", { class: "empty" }, none);
  const cell = (kind, text, head) =>
    element(kind, { class: head.startsWith(">") ? "right" : head.startsWith("*") ? "words" : "" }, text);
  const top = element("tr", {}, ...heads.map((head) => cell("th", head.replace(/^[>*]/, ""), head)));
  const body = lines.map((line) =>
    element("tr", {}, ...line.map((text, i) => cell("td", String(text), heads[i]))));
  return element("div", { class: "scroll" },
    element("table", {}, element("thead", {}, top), element("tbody", {}, ...body)));
}

/* ---------------------------------------------------------------------- drawing -- */

function drawNumbers(pool) {
  const number = (value, words) =>
    element("div", { class: "number" }, element("b", {}, String(value)), element("span", {}, words));
  const alive = pool.servers.alive + pool.servers.draining;
  byId("numbers").replaceChildren(
    number(alive, "servers" + (pool.servers.dead ? ", " + pool.servers.dead + " dead" : "") +
      (pool.servers.draining ? ", " + pool.servers.draining + " draining" : "")),
    number(pool.cards, "cards"),
    number(pool.sessions, "sessions"),
    number(pool.waiting === null ? "?" : pool.waiting, "waiting"),
    number(percent(pool.core.given_percent, pool.core.total_percent), "core given"),
    number(percent(pool.core.busy_percent, pool.core.total_percent), "core busy"),
    number(percent(pool.memory.given_bytes, pool.memory.total_bytes),
      "of " + size(pool.memory.total_bytes) + " given"),
    number(percent(pool.memory.used_bytes, pool.memory.total_bytes), "memory used"));
}

const rounded = (value) => (value === null ? "?" : Math.round(value));

/* One colour per session, the same each time. */
function hue(text) {
  let h = 0;
  for (const c of text) h = (h * 31 + c.codePointAt(0)) % 65521;
  return (h * 137) % 360;
}

/* Why it is not given like others; its server's state counts for all of its cards. */
function cardNote(card) {
  if (card.server_state !== "alive") return card.server_state;
  if (card.fault) return "out of use: " + card.fault;
  return card.cordoned ? "cordoned" : card.reserved;
}

function drawCard(card) {
  const core = element("div", { class: "bar", role: "img",
    "aria-label": card.core_given_percent + " percent of the core given" });
  for (const part of card.parts) {
    const slice = element("i", { title: part.session + ", " + part.owner + ": " +
      part.core_percent + " % core, " + size(part.memory_bytes) + ", uses " +
      rounded(part.share_percent) + " %" });
    slice.style.width = part.core_percent + "%";
    slice.style.background = "hsl(" + hue(part.session + part.owner) + " 55% var(--hue-light))";
    core.append(slice);
  }
  const given = element("i", {});
  given.style.width = percent(card.memory_given_bytes, card.memory_bytes).replace(" ", "");
  const note = cardNote(card);
  return element("div", { class: "card" + (card.server_state === "dead" || card.fault ? " dead" : "") },
    element("p", {}, element("b", {}, card.server + " / " + card.index), " " + card.name +
      (note ? ", " + note : "")),
    core,
    element("div", { class: "bar thin", role: "img", "aria-label": "memory given" }, given),
    element("p", {}, card.core_given_percent + " % given, " + rounded(card.busy_percent) + " % busy, " +
      size(card.memory_given_bytes) + " of " + size(card.memory_bytes)));
}

function drawCards(list) {
  const box = byId("cards");
  if (list.items.length) box.replaceChildren(...list.items.map(drawCard));
  else box.replaceChildren(element("p", { class: "empty" }, "no cards"));
}

function drawSessions(list) {
  const sum = (session, key) => session.slices.reduce(
    (total, slice) => (total === null || slice[key] === null ? null : total + slice[key]), 0);
  byId("sessions").replaceChildren(table(
    ["session", "state", "owner", "server", ">core", ">uses", ">memory", ">used", ">processes", "program"],
    list.items.map((s) => [s.name, s.state, s.owner, s.slices.length ? s.slices[0].server : "",
      sum(s, "core_percent") + " %", rounded(sum(s, "share_percent")) + " %",
      size(sum(s, "memory_bytes")), size(sum(s, "used_bytes")), rounded(s.attachments), s.program]),
    "no sessions"));
}

function drawQueue(queue) {
  const left = queue.waiting - queue.items.length;
  byId("queue").replaceChildren(table(
    [">place", "owner", "tenant", "class", ">cards", ">core", ">memory", ">waited", ">about", "*why"],
    queue.items.map((w) => [w.position, w.owner, w.tenant, w.priority, w.cards,
      w.core_percent + " %", size(w.memory_bytes), duration(w.waited_ms),
      w.estimate_ms === null ? "unknown" : duration(w.estimate_ms), w.reason]),
    "nobody waits"));
  if (left > 0) byId("queue").append(element("p", { class: "empty" }, "and " + left + " more"));
  drawReserved(queue.reservations);
}

/* What most pools do not have is not shown where there is none. */
function drawOptional(name, heads, lines) {
  byId(name + "-section").hidden = !lines.length;
  byId(name).replaceChildren(table(heads, lines, "none"));
}

function drawReserved(reservations) {
  const moment = (unix) => new Date(1000 * unix).toLocaleString();
  drawOptional("reserved",
    ["name", "state", "from", "until", ">cards", ">kept", "owners", "servers"],
    reservations.map((r) => [r.name, r.state, moment(r.from_unix), moment(r.until_unix), r.cards,
      r.kept, r.owners, r.servers]));
}

/* Of a scheduler that follows, while the one that leads does not answer. */
function drawMissing(name, error) {
  byId(name).replaceChildren(element("p", { class: "empty" }, error.message));
}

/* What a scheduler that follows may not have: the answer, or why there is none. */
async function readIfThere(name, parameters, reading = read) {
  try {
    return [await reading(name, parameters, rows[name])];
  } catch (error) {
    if (error.status !== 503) throw error;
    return [null, error];
  }
}

function drawIfThere(name, [answer, error], drawing) {
  if (answer) drawing(answer);
  else drawMissing(name, error);
}

/* Whose state is shown, if it is not this scheduler's own. */
function whoLeads(pool) {
  if (pool.leads) return "";
  return (pool.leader ? ", " + pool.leader + " leads" : ", no scheduler leads") +
    (pool.age_ms > OLD_MS ? ", not heard of for " + duration(pool.age_ms) : "");
}

function drawPools(list) {
  drawOptional("pools",
    ["pool", "state", ">asked", ">granted", ">refused", ">failed", ">last", "scheduler", "*words"],
    list.items.map((p) => [p.name, !p.tried ? "not asked" : p.answers ? "answers" : "away", p.asked,
      p.granted, p.refused, p.failed, p.tried ? duration(p.last_ms) : "", p.scheduler, p.words]));
}

function drawUsage(list) {
  const of = (held, most, text) => text(held) + (most ? " of " + text(most) : "");
  byId("usage").replaceChildren(table(
    ["tenant", ">weight", ">share", ">core", ">memory", ">cards"],
    list.items.map((t) => [t.tenant, t.weight, (t.share_ppm / 1e4).toFixed(1) + " %",
      of(t.core_percent, t.core_quota_percent, (n) => n + " %"),
      of(t.memory_bytes, t.memory_quota_bytes, size), of(t.cards, t.cards_quota, String)]),
    "nobody holds anything"));
}

function drawEvents(list) {
  byId("events").replaceChildren(table(
    ["time", "what", "session", "server", "owner", "*words"],
    list.items.map((e) => [new Date(e.unix_ms).toLocaleString(), e.kind, e.session, e.server,
      e.owner, e.words]),
    "nothing has happened yet"));
}

/* The samples, and how it is now. */
function withNow(samples, pool) {
  return samples.concat({ unix: Date.now() / 1000, core_percent: pool.core.total_percent,
    core_given_percent: pool.core.given_percent, busy_percent: pool.core.busy_percent,
    memory_bytes: pool.memory.total_bytes, memory_given_bytes: pool.memory.given_bytes });
}

function drawHistory(samples) {
  const SVG = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(SVG, "svg");
  const first = samples[0].unix;
  const time = Math.max(samples[samples.length - 1].unix - first, 1);
  const curve = (kind, part, whole) => {
    const line = document.createElementNS(SVG, "polyline");
    line.setAttribute("class", kind);
    line.setAttribute("points", samples.map((s) => (1000 * (s.unix - first)) / time + "," +
      (100 - (s[whole] ? (100 * s[part]) / s[whole] : 0))).join(" "));
    picture.append(line);
  };
  picture.setAttribute("viewBox", "0 -2 1000 104");
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", "use of the pool over the last " + span);
  for (const y of [0, 50, 100]) {
    const line = document.createElementNS(SVG, "line");
    for (const [key, value] of Object.entries({ x1: 0, x2: 1000, y1: y, y2: y })) line.setAttribute(key, value);
    picture.append(line);
  }
  curve("given", "core_given_percent", "core_percent");
  curve("busy", "busy_percent", "core_percent");
  curve("memory", "memory_given_bytes", "memory_bytes");
  byId("history").replaceChildren(picture);
}

/* ---------------------------------------------------------------------- turning -- */

function showMore(name, list) {
  const button = document.querySelector('.more[data-list="' + name + '"]');
  button.hidden = !list.more;
}

/* False: another turn has begun meanwhile. */
async function draw(turnsThen) {
  const pool = await read("status");
  const [cards, sessions, usage, history, queue, events, pools] = await Promise.all([
    readRows("cards", { slices: "true", ...filters.cards }, rows.cards),
    readRows("sessions", filters.sessions, rows.sessions), readRows("usage", {}, PAGE.usage),
    readIfThere("history", { span }), readIfThere("queue", { limit: PAGE.queue }),
    readIfThere("events", {}, readRows), readIfThere("pools")]);
  if (turnsThen !== turns) return false;
  drawNumbers(pool);
  drawCards(cards);
  drawSessions(sessions);
  drawUsage(usage);
  drawIfThere("history", history, (list) => drawHistory(withNow(list.items, pool)));
  drawIfThere("queue", queue, drawQueue);
  drawIfThere("events", events, drawEvents);
  drawIfThere("pools", pools, drawPools);
  for (const [name, list] of Object.entries({ cards, sessions, events: events[0] || { more: false } }))
    showMore(name, list);
  byId("state").className = "";
  byId("state").textContent = "gpupool " + pool.version + ", up " + duration(pool.up_ms) +
    whoLeads(pool);
  return true;
}

function wantToken(words) {
  byId("login").hidden = false;
  byId("view").hidden = true;
  byId("login-error").textContent = words;
  byId("state").textContent = "a token is wanted";
  byId("token").focus();
}

async function turn() {
  clearTimeout(timer);
  timer = null;
  const mine = ++turns;
  try {
    if (!(await draw(mine))) return;
    byId("login").hidden = true;
    byId("view").hidden = false;
    document.body.dataset.drawn = String(Number(document.body.dataset.drawn || 0) + 1);
  } catch (error) {
    if (mine !== turns) return;
    if (error.status === 401) {
      wantToken(sessionStorage.getItem("token") ? error.message : "");
      return;
    }
    byId("state").className = "bad";
    byId("state").textContent = "what is shown is old: " + error.message;
  }
  timer = setTimeout(turn, EVERY_MS);
}

function choose(event) {
  span = event.target.dataset.span;
  for (const button of document.querySelectorAll("[data-span]"))
    button.setAttribute("aria-pressed", String(button.dataset.span === span));
  turn();
}

function more(event) {
  const name = event.target.dataset.list;
  rows[name] += PAGE[name];
  turn();
}

function filter(event) {
  const form = event.target.form;
  const wanted = {};
  for (const [key, value] of new FormData(form)) if (value.trim()) wanted[key] = value.trim();
  filters[form.dataset.list] = wanted;
  turn();
}

function login(event) {
  event.preventDefault();
  sessionStorage.setItem("token", byId("token").value.trim());
  byId("token").value = "";
  turn();
}

byId("login").addEventListener("submit", login);
for (const button of document.querySelectorAll("[data-span]")) button.addEventListener("click", choose);
for (const button of document.querySelectorAll(".more")) button.addEventListener("click", more);
for (const form of document.querySelectorAll(".filter")) {
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", filter);
}
document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(timer);
  else turn();
});
turn();
