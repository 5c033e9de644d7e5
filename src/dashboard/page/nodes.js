// Nodes by the links of the chain.
import { go, place } from "./address.js";
import { fill, make, setAttribute, setText } from "./dom.js";
import { gpuWords, rowTiles } from "./gpus.js";
import { Grid } from "./grid.js";
import { linkState, STAGES } from "./model.js";
import { age, count, model as modelName, number, stage as stageName } from "./words.js";

const SYMBOLS = { good: "\u2713", bad: "\u2715", after: "\u00b7", none: "" };
const WORDS = { good: "holds", bad: "broken", after: "behind the broken link", none: "not part of this node's chain" };

/** What is searched, of each node as it is now. @type {WeakMap<import("./model.js").FleetNode, string>} */
const texts = new WeakMap();

function textOf(node) {
  let text = texts.get(node);
  if (text === undefined) {
    text = [node.name, node.product, node.driverVersion, node.workload, node.stage, node.upgrade, node.finding?.id,
            node.finding?.summary, ...Object.keys(node.resources)].join(" ").toLowerCase();
    texts.set(node, text);
  }
  return text;
}

/** What is asked for, of the words of the address. */
function matcher(words) {
  const parts = (words.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  return (node) => {
    if (words.state === "broken" && node.ready) return false;
    if (words.state === "ready" && !node.ready) return false;
    if (words.stage && node.stage !== words.stage) return false;
    if (words.finding && node.finding?.id !== words.finding) return false;
    if (words.model && node.product !== words.model) return false;
    if (words.workload && node.workload !== words.workload) return false;
    if (parts.length === 0) return true;
    return parts.every((part) => textOf(node).includes(part));
  };
}

/** Nodes that are not ready along the chain, then the others; each by name, or all by one column. */
function sorted(nodes, order) {
  if (order === "name") return nodes;
  if (order === "longest") return [...nodes].sort((a, b) => (a.since ?? "~").localeCompare(b.since ?? "~"));
  const place = (node) => (node.ready ? STAGES.length : STAGES.indexOf(node.stage));
  return [...nodes].sort((a, b) => place(a) - place(b));
}

export class NodesView {
  /** @param {import("./model.js").Model} model */
  constructor(model) {
    this.model = model;
    this.counts = new Map();
    const links = STAGES.map((name) => ({
      name, title: stageName(name), className: "link", head: () => this.stageHead(name),
    }));
    this.grid = new Grid({
      label: "Nodes with GPUs by the links of the chain", className: "nodes", rowHeight: 34,
      columns: [
        { name: "name", title: "Node", className: "name" },
        ...links,
        { name: "gpus", title: "GPUs", className: "devices" },
        { name: "since", title: "For", className: "since" },
        { name: "reason", title: "Why", className: "reason" },
      ],
      draw: (cells, node, row) => this.drawRow(cells, node, row),
      open: (node) => go({ words: { open: `node/${node.name}` } }, true),
      isOpen: (node) => place().words.open === `node/${node.name}`,
    });
    this.element = make("div", { class: "view" }, this.filters(), this.grid.element,
      this.empty = make("p", { class: "empty", hidden: true }));
  }

  /** The name of a link upright, and below it how many nodes are broken there: a filter. */
  stageHead(name) {
    const number = make("span", { class: "head-count" });
    this.counts.set(name, number);
    return make("button", {
      type: "button", class: "upright", tabindex: -1,
      onclick: () => go({ words: { stage: place().words.stage === name ? "" : name } }),
    }, make("span", { text: stageName(name) }), number);
  }

  filters() {
    const choice = (name, label, options) => {
      const select = make("select", { name, "aria-label": label, onchange: () => go({ words: { [name]: select.value } }) },
        ...options.map(([value, text]) => make("option", { value, text })));
      return select;
    };
    this.search = make("input", {
      type: "search", name: "q", placeholder: "Search nodes, models, findings", "aria-label": "Search nodes ( / )",
      autocomplete: "off", spellcheck: "false", oninput: () => go({ words: { q: this.search.value } }),
    });
    this.selects = {
      state: choice("state", "State", [["", "all states"], ["broken", "not ready"], ["ready", "ready"]]),
      stage: choice("stage", "Broken link", [["", "any link"], ...STAGES.map((name) => [name, stageName(name)])]),
      model: choice("model", "Model of GPU", [["", "all models"]]),
      workload: choice("workload", "Workload", [["", "all workloads"], ["container", "containers"],
                                                ["vm-passthrough", "virtual machines"], ["vm-vgpu", "vGPUs"]]),
      sort: choice("sort", "Order", [["", "not ready first"], ["name", "by name"], ["longest", "longest first"]]),
    };
    this.shown = make("p", { class: "shown", role: "status" });
    this.clear = make("button", {
      type: "button", class: "quiet", text: "Clear", onclick: () => go({
        words: { q: "", state: "", stage: "", model: "", workload: "", finding: "", sort: "" } }),
    });
    this.finding = make("button", { type: "button", class: "chip", onclick: () => go({ words: { finding: "" } }) });
    return make("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
      this.search, ...Object.values(this.selects), this.finding, this.clear, this.shown);
  }

  drawRow(cells, node, row) {
    const [name, ...rest] = cells;
    const now = this.model.now();
    setText(name, node.name);
    setAttribute(name, "title", [node.name, node.product && modelName(node.product)].filter(Boolean).join(", "));
    setAttribute(row, "class", `grid-row ${node.ready ? "" : "broken"}`);
    STAGES.forEach((stage, index) => {
      const state = linkState(node, stage);
      const cell = rest[index];
      setAttribute(cell, "class", `cell link ${state}`);
      setText(cell, SYMBOLS[state]);
      setAttribute(cell, "aria-label", `${stageName(stage)}: ${WORDS[state]}`);
      setAttribute(cell, "title", state === "bad" ? `${stageName(stage)}: ${node.finding?.summary ?? "broken"}` : null);
    });
    const [devices, since, reason] = rest.slice(STAGES.length);
    // Tiles are many: they are drawn again only where they differ.
    const known = JSON.stringify(node.gpus);
    if (devices.known !== known) {
      devices.known = known;
      fill(devices, ...rowTiles(node));
      setAttribute(devices, "aria-label", gpuWords(node));
      setAttribute(devices, "title", gpuWords(node));
    }
    setText(since, age(node.since, now));
    const said = [node.finding?.summary, node.upgrade && node.upgrade !== "upgrade-done" && `driver: ${node.upgrade}`,
                  node.cordoned && !node.finding && "cordoned"].filter(Boolean).join("; ");
    setText(reason, said);
    setAttribute(reason, "title", said || null);
  }

  /** After a change of the fleet or of the address. */
  update() {
    const { words } = place();
    const nodes = this.model.nodes();
    const matches = sorted(nodes.filter(matcher(words)), words.sort);
    if (document.activeElement !== this.search) this.search.value = words.q ?? "";
    this.offerModels(nodes, words.model);
    for (const [name, select] of Object.entries(this.selects)) select.value = words[name] ?? "";
    this.finding.hidden = !words.finding;
    setText(this.finding, `finding: ${words.finding} \u00d7`);
    const filtered = ["q", "state", "stage", "model", "workload", "finding", "sort"].some((name) => words[name]);
    this.clear.hidden = !filtered;
    setText(this.shown, matches.length === nodes.length ? count(nodes.length, "node")
      : `${number(matches.length)} of ${count(nodes.length, "node")}`);
    this.countStages(nodes, words.stage);
    this.grid.element.hidden = matches.length === 0;
    this.empty.hidden = matches.length > 0;
    setText(this.empty, this.emptyWords(nodes.length));
    this.grid.show(matches);
  }

  emptyWords(all) {
    if (!this.model.read) return "Reading the cluster\u2026";
    if (all > 0) return "No node is like that.";
    const totals = this.model.parts.get("totals");
    return totals?.judged ? "No node has a GPU, as far as node feature discovery tells." : "Nodes are not known.";
  }

  offerModels(nodes, chosen) {
    const products = new Set(nodes.map((node) => node.product).filter(Boolean));
    if (chosen) products.add(chosen);
    const names = [...products].sort();
    const known = names.join("\n");
    if (this.products === known) return;
    this.products = known;
    fill(this.selects.model, make("option", { value: "", text: "all models" }),
      ...names.map((name) => make("option", { value: name, text: modelName(name) })));
  }

  countStages(nodes, chosen) {
    const broken = new Map();
    for (const node of nodes) if (!node.ready) broken.set(node.stage, (broken.get(node.stage) ?? 0) + 1);
    for (const [name, element] of this.counts) {
      const here = broken.get(name) ?? 0;
      setText(element, here > 0 ? number(here) : "");
      const button = element.parentElement;
      setAttribute(button, "aria-pressed", String(chosen === name));
      setAttribute(button, "aria-label", `${stageName(name)}: ${count(here, "node")} broken here`);
    }
  }

  focusSearch() {
    this.search.focus();
    this.search.select();
  }
}
