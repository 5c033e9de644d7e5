// What is behind one node, pod or finding: doctor's evidence and fix, and of a node its GPUs and pods.
import { go } from "./address.js";
import { fill, make, pill } from "./dom.js";
import { knownTiles, readTiles } from "./gpus.js";
import { linkState } from "./model.js";
import { readNode } from "./stream.js";
import { age, day, gigabytes, model as modelName, number, stage as stageName } from "./words.js";

const AGAIN_MS = 15000; // the exporter's readings change in rounds, and nobody tells of them

/** Lines of a fix: commands ("$ ...") can be copied. */
function fixLines(fix) {
  return fix.split("\n").map((line) => line.startsWith("$ ")
    ? make("div", { class: "command" }, make("code", { text: line.slice(2) }),
      make("button", { type: "button", class: "quiet", text: "Copy",
        onclick: () => navigator.clipboard?.writeText(line.slice(2)) }))
    : make("p", { text: line }));
}

/** @param {import("./model.js").Finding} finding */
export function findingParts(finding, now, heading = "h3") {
  const evidence = finding.evidence.map((one) => make("li", {},
    make("p", { class: "origin" }, one.object, one.field ? `, ${one.field}` : "",
      one.at ? make("span", { class: "faint", title: one.at, text: ` ${age(one.at, now)} ago` }) : ""),
    make("pre", { text: one.text, tabindex: 0, role: "group", "aria-label": "The words of the cluster" })));
  return [
    make("p", { class: "summary-line" }, finding.summary, " ", make("code", { class: "faint", text: finding.id })),
    evidence.length > 0 && make(heading, { text: "Evidence" }),
    evidence.length > 0 && make("ul", { class: "evidence" }, ...evidence),
    finding.fix && make(heading, { text: "What to do" }),
    finding.fix && make("div", { class: "fix" }, ...fixLines(finding.fix)),
  ].filter(Boolean);
}

function chain(node) {
  const words = { good: "holds", bad: "is broken", after: "comes behind it" };
  const symbols = { good: "\u2713", bad: "\u2715", after: "\u00b7" };
  return make("ol", { class: "chain", "aria-label": "The links of its chain" }, ...node.chain.map((name) => {
    const state = linkState(node, name);
    return make("li", { class: state, title: words[state] },
      make("span", { "aria-hidden": true, text: `${symbols[state]} ` }), stageName(name),
      make("span", { class: "unseen", text: ` ${words[state]}` }));
  }));
}

function facts(node, now) {
  const known = [
    ["model", node.product && modelName(node.product)],
    ["memory of one", node.gpus?.memoryMiB && gigabytes(node.gpus.memoryMiB)],
    ["driver", node.driverVersion],
    ["workload", node.workload],
    ["driver upgrade", node.upgrade && [node.upgrade, node.upgradeWaits && `waits: ${node.upgradeWaits}`].filter(Boolean).join("; ")],
    ["scheduling", node.cordoned && "cordoned: no new pods"],
    [node.ready ? "ready for" : "broken for", age(node.since, now)],
  ].filter(([, value]) => value);
  return make("dl", { class: "facts wide" }, ...known.map(([name, value]) =>
    make("div", { class: "fact" }, make("dt", { text: name }), make("dd", { text: value }))));
}

function podsOf(pods) {
  if (pods.length === 0) return make("p", { class: "faint", text: "No running pod has a GPU of this node." });
  return make("ul", { class: "pods" }, ...pods.map((pod) => make("li", {},
    make("span", { class: "mono", text: `${pod.namespace}/${pod.name}` }),
    make("span", { class: "faint", text: ` ${Object.entries(pod.resources)
      .map(([resource, amount]) => `${number(amount)} ${resource}`).join(", ")}` }),
    !pod.ready && pill("wait", pod.phase === "Running" ? "not ready" : pod.phase.toLowerCase()))));
}

export class Panel {
  /**
   * @param {HTMLElement} element
   * @param {import("./model.js").Model} model
   */
  constructor(element, model) {
    this.element = element;
    this.model = model;
    this.name = "";
    this.detail = null; // of the node that is open
    this.error = "";
    element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
    document.addEventListener("visibilitychange", () => this.readAgain());
  }

  close() {
    go({ words: { open: "" } });
    this.before?.();
  }

  /** @param {string} name of a part; "" closes @param {() => void} before gives the focus back */
  show(name, before) {
    if (name === this.name) {
      this.draw();
      return;
    }
    clearTimeout(this.timer);
    this.name = name;
    this.detail = null;
    this.error = "";
    this.before = before;
    this.element.hidden = !name;
    this.draw();
    if (!name) return;
    this.element.scrollTop = 0;
    this.element.focus({ preventScroll: true });
    this.read();
  }

  /** The part has changed: what was read of it may have, too. */
  changed(names) {
    if (this.name && (names === null || names.has(this.name))) this.read();
  }

  readAgain() {
    clearTimeout(this.timer);
    if (!this.name.startsWith("node/") || document.hidden) return;
    // A file tells the same at all times.
    if (this.model.source?.kind === "file" && this.detail) return;
    this.timer = setTimeout(() => this.read(), this.detail ? AGAIN_MS : 0);
  }

  async read() {
    if (!this.name.startsWith("node/")) return;
    const { name } = this;
    try {
      const detail = await readNode(name.slice("node/".length));
      if (name !== this.name) return;
      this.detail = detail;
      this.error = "";
    } catch (problem) {
      if (name !== this.name) return;
      this.error = problem.message;
    }
    this.draw();
    this.readAgain();
  }

  draw() {
    if (!this.name) {
      fill(this.element);
      this.drawn = "";
      return;
    }
    const part = this.model.parts.get(this.name);
    // Drawn again only for what differs: a person may be reading, or marking text.
    const seen = JSON.stringify([this.name, part, this.detail, this.error, this.model.read,
                                 age(part?.since, this.model.now())]);
    if (seen === this.drawn) return;
    this.drawn = seen;
    const focused = this.element.contains(document.activeElement) ? document.activeElement.dataset.keep : undefined;
    const [kind] = this.name.split("/", 1);
    const parts = !part ? this.absent() : kind === "node" ? this.node(part) : this.finding(part, kind);
    fill(this.element, ...parts);
    if (focused) this.element.querySelector(`[data-keep="${focused}"]`)?.focus();
  }

  head(title, ...pills) {
    return make("div", { class: "panel-head" }, make("h2", { text: title }), ...pills,
      make("button", { type: "button", class: "quiet close", "aria-label": "Close details", text: "\u2715",
        "data-keep": "close", onclick: () => this.close() }));
  }

  absent() {
    const name = this.name.slice(this.name.indexOf("/") + 1);
    return [this.head(name), make("p", { text: this.model.read
      ? "There is nothing of that name any more: it has gone, or it is well again." : "Reading the cluster\u2026" })];
  }

  /** @param {import("./model.js").FleetNode} part */
  node(part) {
    const now = this.model.now();
    // The same that doctor says, with the logs that it read for it.
    const node = this.detail?.node ?? part;
    const unknown = this.detail?.unknown ?? [];
    return [
      this.head(part.name, pill(node.ready ? "good" : "bad", node.ready ? "\u2713 ready" : `\u2715 ${stageName(node.stage)}`)),
      chain(node),
      facts(node, now),
      ...(node.finding ? findingParts(node.finding, now) : []),
      make("h3", { text: "GPUs" }),
      this.detail?.gpus?.length ? readTiles(this.detail.gpus, node.gpus?.slicesEach) : knownTiles(node),
      make("h3", { text: "Pods that have them" }),
      this.detail?.pods ? podsOf(this.detail.pods)
        : make("p", { class: "faint", text: this.error || (this.detail ? "Not known." : "Reading\u2026") }),
      unknown.length > 0 && make("h3", { text: "Not known" }),
      unknown.length > 0 && make("ul", { class: "evidence" }, ...unknown.map((one) => make("li", {},
        make("p", { class: "origin", text: one.what }), make("p", { class: "faint", text: one.reason })))),
    ].filter(Boolean);
  }

  /** @param {import("./model.js").Finding} part */
  finding(part, kind) {
    const now = this.model.now();
    const title = kind === "finding" ? "Cluster" : part.object;
    const since = part.since ? `for ${age(part.since, now)}` : "";
    return [
      this.head(title, pill(kind === "pod" ? "wait" : "bad", kind === "pod" ? "does not run" : "broken")),
      since && make("p", { class: "faint", text: since, title: day(part.since) }),
      ...findingParts(part, now),
    ].filter(Boolean);
  }
}

