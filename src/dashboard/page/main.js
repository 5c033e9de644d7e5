// The page: session, stream, views, and what they have in common.
import { link, place, VIEWS } from "./address.js";
import { fill, make, setAttribute, setText } from "./dom.js";
import { PodsView, RollOutsView, WrongView } from "./lists.js";
import { Model } from "./model.js";
import { NodesView } from "./nodes.js";
import { Panel } from "./panel.js";
import { enter, follow } from "./stream.js";
import { clock, count, day, number } from "./words.js";

const TITLES = { nodes: "Nodes", wrong: "What is wrong", pods: "Waiting pods", "roll-outs": "Roll-outs" };
const AGES_MS = 10000; // how old things are is told anew so often
const THEMES = ["", "light", "dark"];

const at = (id) => document.getElementById(id);
const model = new Model();
const views = { nodes: new NodesView(model), wrong: new WrongView(model), pods: new PodsView(model), "roll-outs": new RollOutsView(model) };
const panel = new Panel(at("panel"), model);
let shown = "";
let changedParts = null; // names since the last drawing; null: everything
let asked = false;
let begun = false; // there is a session
let entering = false; // it is asked for
let counts = {}; // on the tabs, by view

// --- the head of the page

function showSource() {
  const { source } = model;
  if (!source) return;
  setText(at("source"), source.kind === "file" ? source.name : source.name.replace(/^.*context /, "context "));
  at("source").title = [source.name, source.server].filter(Boolean).join(", ");
}

function showLive(state) {
  const words = {
    live: () => (model.frozen ? `as of ${day(model.source.time)}` : "live"),
    waiting: () => `connection lost; what is shown is of ${clock(Date.now())}`,
    ended: () => "the server has ended, or the session has; load the page again",
    reading: () => "reading the cluster\u2026",
  };
  setAttribute(at("live"), "class", `live ${state === "live" ? "on" : state}${model.frozen ? " frozen" : ""}`);
  if (at("live").dataset.state !== state || state === "live") setText(at("live"), words[state]());
  at("live").dataset.state = state;
}

function theme(step) {
  const root = document.documentElement;
  let now = root.dataset.theme ?? "";
  if (step) {
    now = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    if (now) root.dataset.theme = now;
    else delete root.dataset.theme;
    localStorage.setItem("theme", now);
  }
  setText(at("theme"), { "": "Theme: system", light: "Theme: light", dark: "Theme: dark" }[now]);
}

// --- the fleet in short

/** A number with its words, that leads to a view. `state` is "good", "bad", "wait" or "". */
function fact(state, value, words, view, wordsOfPlace = {}) {
  const symbol = { good: "\u2713", bad: "\u2715", wait: "\u25b2" }[state];
  return make("a", { class: `figure ${state}`, href: link({ view, words: wordsOfPlace }) },
    make("strong", {}, symbol ? make("span", { class: "symbol", "aria-hidden": true, text: `${symbol} ` }) : "", value),
    make("span", { class: "figure-words", text: words }));
}

function showSummary() {
  const all = model.totals();
  const totals = model.parts.get("totals") ?? {};
  const policy = model.parts.get("policy");
  const upgrade = model.parts.get("upgrade");
  const pods = model.all("pod/").length;
  const findings = model.all("finding/").length;
  const notReady = all.nodes - all.ready;
  const figures = [
    fact(notReady > 0 ? "bad" : totals.judged ? "good" : "wait", `${number(all.ready)} / ${number(all.nodes)}`,
      "GPU nodes ready", "nodes", notReady > 0 ? { state: "broken" } : {}),
    all.devices > 0 && fact(all.offered < all.devices ? "wait" : "", `${number(all.offered)} / ${number(all.devices)}`,
      "GPUs offered", "nodes"),
    all.instances > 0 && fact(all.instancesOffered < all.instances ? "wait" : "",
      `${number(all.instancesOffered)} / ${number(all.instances)}`, "MIG instances offered", "nodes", { q: "mig" }),
    fact(pods > 0 ? "wait" : "", number(pods), pods === 1 ? "pod waits for a GPU" : "pods wait for GPUs", "pods"),
    fact(findings > 0 ? "bad" : "", number(findings), findings === 1 ? "finding about the cluster" : "findings about the cluster", "wrong"),
    policy ? fact(policy.state === "ready" ? "good" : "wait", policy.state, `ClusterPolicy ${policy.name}`, "roll-outs")
      : fact("wait", "none", "ClusterPolicy", "roll-outs"),
    upgrade && fact("wait", number(Object.values(upgrade.states).reduce((sum, nodes) => sum + nodes, 0) - (upgrade.states["upgrade-done"] ?? 0)),
      "drivers to upgrade", "roll-outs"),
  ];
  const seen = figures.filter(Boolean).map((one) => one.outerHTML).join("");
  if (seen !== showSummary.seen) fill(at("summary"), ...figures);
  showSummary.seen = seen;
  document.title = model.read ? `${notReady > 0 ? `(${number(notReady)}) ` : ""}Pitcrew` : "Pitcrew";
  const news = notReady > 0 ? `${count(notReady, "node")} not ready` : "all nodes are ready";
  if (model.read) setText(at("news"), news);
  showUnknown(totals);
}

function showUnknown(totals) {
  const unknown = model.all("unknown/");
  const undiscovered = totals.undiscoveredNodes ?? [];
  const lines = unknown.map((one) => make("li", {}, make("strong", { text: one.what }), `: ${one.reason}`));
  if (undiscovered.length > 0) {
    lines.push(make("li", {}, `${count(undiscovered.length, "node")} without any label of node feature discovery: ${undiscovered.slice(0, 5).join(", ")}`));
  }
  at("unknown").hidden = lines.length === 0;
  const seen = lines.map((line) => line.textContent).join("\n");
  if (seen === showUnknown.seen) return;
  showUnknown.seen = seen;
  fill(at("unknown"), make("details", {}, make("summary", { text: unknown.length > 0
    ? `${count(unknown.length, "thing")} could not be read: silence about them is not health` : "Some nodes are not known" }),
  make("ul", {}, ...lines)));
}

function countTabs() {
  counts = { wrong: model.all("finding/").length + model.troubles().length, pods: model.all("pod/").length };
}

function showTabs(view) {
  if (at("tabs").children.length === 0) {
    fill(at("tabs"), ...VIEWS.map((name) => make("a", { "data-view": name }, TITLES[name], make("span", { class: name === "pods" ? "badge wait" : "badge" }))));
  }
  for (const tab of at("tabs").children) {
    const name = tab.dataset.view;
    setAttribute(tab, "href", link({ view: name, words: {} }));
    setAttribute(tab, "aria-current", name === view ? "page" : null);
    setText(tab.lastChild, counts[name] ? number(counts[name]) : "");
  }
}

// --- drawing

/** @param {boolean} all the fleet has changed too, not only what is looked at */
function draw(all = true) {
  const { view, words } = place();
  if (view !== shown) {
    shown = view;
    fill(at("view"), views[view].element);
  }
  if (all) {
    showSource();
    showSummary();
    countTabs();
  }
  showTabs(view);
  // The panel first: it takes its part of the screen from the rows.
  panel.show(words.open ?? "", () => views[view].grid?.focus());
  views[view].update();
  panel.changed(changedParts);
  changedParts = new Set();
}

/** At the next frame, once for all that comes until then. */
function drawLater() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    draw();
  });
}

for (const moved of ["place", "hashchange", "popstate"]) addEventListener(moved, () => (begun ? draw(false) : signIn()));
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea");
  if (event.key === "/" && !typing && views[shown].focusSearch) {
    event.preventDefault();
    views[shown].focusSearch();
  } else if (event.key === "Escape" && place().words.open && !typing) {
    panel.close();
  }
});
at("theme").addEventListener("click", () => theme(true));
at("skip").addEventListener("click", () => {
  if (views[shown].grid && !views[shown].grid.element.hidden) views[shown].grid.focus();
  else at("view").focus();
});
setInterval(() => {
  if (!document.hidden && !model.frozen) drawLater();
}, AGES_MS);

// --- the session

function begin() {
  begun = true;
  showLive("reading");
  draw();
  follow(model, (what, message) => {
    if (what === "fleet") changedParts = null;
    if (what === "change") for (const name of Object.keys(message.set ?? {})) changedParts?.add(name);
    if (what !== "beat") drawLater();
  }, (state) => showLive(state === "live" && !model.read ? "reading" : state));
}

/** Who has no session is told how to get one, or asked for a token. */
function askIn(asks, refused = "") {
  const parts = asks === "token"
    ? [make("p", { text: "Sign in with a token of a user or a service account who may list nodes and pods, for example of:" }),
       make("pre", { text: "kubectl create token NAME --namespace NAMESPACE", tabindex: 0 }),
       make("form", { class: "sign-in", onsubmit: async (event) => {
         event.preventDefault();
         const token = event.target.token.value.trim();
         const answer = await enter(token);
         if (answer === "ok") begin();
         else askIn("token", answer === "token" ? "The cluster does not know this token." : answer);
       } }, make("input", { type: "password", name: "token", "aria-label": "Token", autocomplete: "off", required: true }),
       make("button", { type: "submit", text: "Sign in" }))]
    : [make("p", { text: asks === "link"
      ? "Open the address that `pitcrew dashboard` has printed: it has a token that lets you in." : `This page cannot be shown: ${asks}` })];
  fill(at("view"), make("div", { class: "ask", role: "alert" }, make("h2", { text: "Who are you?" }), ...parts,
    refused && make("p", { class: "lacking", text: refused })));
  at("view").querySelector("input")?.focus();
}

/** With what the address or an earlier visit brings along. A move in the address is told twice, by two events. */
async function signIn() {
  if (entering) return;
  entering = true;
  const answer = await enter();
  entering = false;
  if (answer === "ok") begin();
  else askIn(answer);
}

theme(false);
await signIn();
