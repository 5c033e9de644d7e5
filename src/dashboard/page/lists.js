// What is wrong, sorted by what it is; pods that wait; roll-outs.
import { go, link, place } from "./address.js";
import { fill, make, pill, setAttribute, setText } from "./dom.js";
import { Grid } from "./grid.js";
import { findingParts } from "./panel.js";
import { age, count, day, number, stage as stageName } from "./words.js";

const MOST_EXAMPLES = 6;

function examples(nodes) {
  const parts = nodes.slice(0, MOST_EXAMPLES).map((node) => make("li", {}, make("a", {
    class: "mono", text: node.name, href: link({ view: "nodes", words: { open: `node/${node.name}` } }) })));
  return make("ul", { class: "names" }, ...parts);
}

/** Each kind of trouble once, as doctor tells it, with the nodes that have it. */
export class WrongView {
  constructor(model) {
    this.model = model;
    this.element = make("div", { class: "view scroll" });
    this.open = new Set();
  }

  update() {
    const now = this.model.now();
    const findings = this.model.inOrder("finding/");
    const troubles = this.model.troubles();
    const seen = JSON.stringify([findings, troubles.map((one) => [one.finding, one.nodes.length]), this.model.read]);
    if (seen === this.seen) return;
    this.seen = seen;
    const cards = [
      ...findings.map((finding) => this.card(`cluster ${finding.id}`, "Cluster", finding, now)),
      ...troubles.map(({ finding, stage, nodes }) => this.card(`${finding.id} ${stage}`,
        count(nodes.length, "node"), finding, now, stage, nodes)),
    ];
    if (cards.length === 0) {
      const totals = this.model.parts.get("totals");
      cards.push(make("p", { class: "empty", text: !this.model.read ? "Reading the cluster\u2026"
        : totals?.judged ? "Nothing is broken." : "Nothing is known to be broken; not everything could be read." }));
    }
    fill(this.element, ...cards);
  }

  card(key, title, finding, now, stage = "", nodes = []) {
    return make("article", { class: "card" },
      make("header", {}, make("h2", { text: title }), pill("bad", stage ? `\u2715 ${stageName(stage)}` : "\u2715 broken"),
        finding.since && make("span", { class: "faint", title: day(finding.since), text: `for ${age(finding.since, now)}` }),
        nodes.length > 1 && make("a", { class: "all", text: `Show these ${number(nodes.length)} nodes`,
          href: link({ view: "nodes", words: { finding: finding.id, stage } }) })),
      nodes.length > 0 && examples(nodes),
      nodes.length > 1 && make("p", { class: "faint", text: `Of ${nodes[0].name}, for example:` }),
      ...findingParts(finding, now));
  }
}

/** Pods and virtual machines that ask for GPUs and do not run. */
export class PodsView {
  constructor(model) {
    this.model = model;
    this.grid = new Grid({
      label: "Pods that ask for GPUs and do not run", className: "waiting", rowHeight: 34,
      columns: [{ name: "pod", title: "Pod", className: "name" }, { name: "since", title: "For", className: "since" },
                { name: "finding", title: "Finding", className: "finding" }, { name: "reason", title: "Why", className: "reason" }],
      draw: (cells, pod) => {
        setText(cells[0], pod.object.replace(/^Pod /, ""));
        setText(cells[1], age(pod.since, this.model.now()));
        setText(cells[2], pod.id);
        setText(cells[3], pod.summary);
        setAttribute(cells[3], "title", pod.summary);
      },
      open: (pod) => go({ words: { open: `pod/${pod.object}` } }, true),
      isOpen: (pod) => place().words.open === `pod/${pod.object}`,
    });
    this.search = make("input", {
      type: "search", placeholder: "Search pods, namespaces, reasons", "aria-label": "Search pods ( / )", autocomplete: "off",
      spellcheck: "false", oninput: () => go({ words: { q: this.search.value } }),
    });
    this.shown = make("p", { class: "shown", role: "status" });
    this.element = make("div", { class: "view" },
      make("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() }, this.search, this.shown),
      this.grid.element, this.empty = make("p", { class: "empty", hidden: true }));
  }

  update() {
    const query = (place().words.q ?? "").toLowerCase();
    if (document.activeElement !== this.search) this.search.value = place().words.q ?? "";
    const all = this.model.pods();
    const pods = all.filter((pod) => `${pod.object} ${pod.id} ${pod.summary}`.toLowerCase().includes(query));
    setText(this.shown, pods.length === all.length ? count(all.length, "pod") : `${number(pods.length)} of ${count(all.length, "pod")}`);
    this.grid.element.hidden = pods.length === 0;
    this.empty.hidden = pods.length > 0;
    setText(this.empty, !this.model.read ? "Reading the cluster\u2026"
      : all.length > 0 ? "No pod is like that." : "No pod waits for a GPU.");
    this.grid.show(pods);
  }

  focusSearch() {
    this.search.focus();
    this.search.select();
  }
}

function meter(part, whole, label) {
  const filled = make("span", { class: "bar-part" });
  filled.style.setProperty("--share", `${whole > 0 ? (100 * part) / whole : 100}%`);
  return make("span", { class: `bar ${part < whole ? "short" : ""}`, role: "img", "aria-label": label }, filled);
}

/** The policy, its operands, and the upgrade of drivers. */
export class RollOutsView {
  constructor(model) {
    this.model = model;
    this.element = make("div", { class: "view scroll" });
  }

  update() {
    const { parts } = this.model;
    const policy = parts.get("policy");
    const upgrade = parts.get("upgrade");
    const operands = this.model.inOrder("operand/");
    const seen = JSON.stringify([policy, upgrade, operands, this.model.read, age(policy?.since, this.model.now())]);
    if (seen === this.seen) return;
    this.seen = seen;
    fill(this.element, this.policy(policy), operands.length > 0 && this.operands(operands), this.upgrade(upgrade));
  }

  policy(policy) {
    if (!policy) {
      const text = !this.model.read ? "Reading the cluster\u2026" : "There is no ClusterPolicy, or it could not be read.";
      return make("p", { class: "empty", text });
    }
    return make("article", { class: "card" },
      make("header", {}, make("h2", { text: `ClusterPolicy ${policy.name}` }),
        pill(policy.state === "ready" ? "good" : "wait", policy.state === "ready" ? "\u2713 ready" : policy.state),
        policy.since && make("span", { class: "faint", title: day(policy.since), text: `for ${age(policy.since, this.model.now())}` })),
      policy.message && make("p", { text: policy.message }));
  }

  operands(operands) {
    const row = (operand) => make("tr", {},
      make("th", { scope: "row", text: operand.name }),
      make("td", { class: "number", text: `${number(operand.ready)} of ${number(operand.desired)}` }),
      make("td", {}, meter(operand.ready, operand.desired, `${operand.ready} of ${operand.desired} ready`)),
      make("td", {}, operand.behind ? make("a", { class: "mono", text: operand.behind,
        href: link({ view: "nodes", words: { open: `node/${operand.behind}` } }) }) : "",
      operand.reason ? ` ${operand.reason}` : ""));
    return make("article", { class: "card" }, make("header", {}, make("h2", { text: "Operands" })),
      make("table", {}, make("thead", {}, make("tr", {}, ...["Operand", "Ready", "Share", "Behind, and why"].map((title) =>
        make("th", { scope: "col", text: title })))), make("tbody", {}, ...operands.map(row))));
  }

  upgrade(upgrade) {
    if (!upgrade) {
      return make("article", { class: "card" }, make("header", {}, make("h2", { text: "Driver upgrade" })),
        make("p", { class: "faint", text: "None is under way." }));
    }
    const states = Object.entries(upgrade.states);
    const all = states.reduce((sum, [, nodes]) => sum + nodes, 0);
    return make("article", { class: "card" },
      make("header", {}, make("h2", { text: "Driver upgrade" }), pill("wait", "under way")),
      upgrade.held && make("p", { text: `No other node begins now: ${upgrade.held}` }),
      make("table", {}, make("thead", {}, make("tr", {}, ...["State", "Nodes", "Share"].map((title) =>
        make("th", { scope: "col", text: title })))),
      make("tbody", {}, ...states.map(([state, nodes]) => make("tr", {}, make("th", { scope: "row" },
        make("a", { text: state, href: link({ view: "nodes", words: { q: state } }) })),
      make("td", { class: "number", text: number(nodes) }),
      make("td", {}, meter(nodes, all, `${nodes} of ${all} nodes`)))))),
      ...(upgrade.waiting ?? []).map(({ reason, nodes }) => make("p", {},
        `${count(nodes.length, "node")} wait: ${reason} `, make("span", { class: "mono faint", text: nodes.slice(0, MOST_EXAMPLES).join(", ") }))));
  }
}
