// The fleet as the server tells it: named parts, the whole once and then what changes.

/**
 * @typedef {{object: string, field?: string, text: string, at?: string}} Evidence
 * @typedef {{id: string, object: string, summary: string, evidence: Evidence[], fix: string, stage?: string,
 *            since?: string}} Finding
 * @typedef {{resource: string, count: number, offered: number, profile?: string, slices?: number}} Group
 * @typedef {{groups: Group[], count?: number, memoryMiB?: number, sharing?: string, replicas?: number,
 *            slicesEach?: number}} Gpus
 * @typedef {{name: string, workload: string, stage: string, ready: boolean, chain: string[], gpus?: Gpus,
 *            product?: string, driverVersion?: string, since?: string, finding?: Finding, cordoned?: boolean,
 *            upgrade?: string, upgradeWaits?: string,
 *            resources: Object<string, {capacity: number, allocatable: number}>}} FleetNode
 */

/** The links of a chain in their order, whatever a node is for; those behind it that a node lacks are left out. */
export const STAGES = ["node", "pci-device", "labels", "workload", "driver", "kernel-module", "toolkit", "validation",
                       "device-plugin", "allocatable", "schedulable", "metrics"];

const byName = new Intl.Collator("en", { numeric: true });

export class Model {
  constructor() {
    /** @type {Map<string, any>} */
    this.parts = new Map();
    this.read = false;
    this.source = null;
    /** @type {string[]|null} names of nodes in order; null when some have come or gone */
    this.order = null;
    // This machine's clock minus the server's; of a file the moment that it tells of.
    this.behind = 0;
    this.frozen = null;
  }

  /** @param {{kind: string, name: string, time?: string}} source */
  setSource(source) {
    this.source = source;
    this.frozen = source.time ? Date.parse(source.time) : null;
  }

  setServerTime(time) {
    this.behind = Date.now() - Date.parse(time);
  }

  /** The moment of which ages are told, in milliseconds. */
  now() {
    return this.frozen ?? Date.now() - this.behind;
  }

  /** @param {{set?: Object<string, any>, gone?: string[]}} message */
  replace(message) {
    this.parts = new Map(Object.entries(message.set ?? {}));
    this.order = null;
    this.read = true;
  }

  change(message) {
    for (const [name, part] of Object.entries(message.set ?? {})) {
      if (name.startsWith("node/") && !this.parts.has(name)) this.order = null;
      this.parts.set(name, part);
    }
    for (const name of message.gone ?? []) {
      if (name.startsWith("node/")) this.order = null;
      this.parts.delete(name);
    }
  }

  /** Every part whose name begins so. */
  all(prefix) {
    const found = [];
    for (const [name, part] of this.parts) if (name.startsWith(prefix)) found.push(part);
    return found;
  }

  inOrder(prefix) {
    return this.all(prefix).sort((a, b) => a.order - b.order);
  }

  /** @returns {FleetNode|undefined} */
  node(name) {
    return this.parts.get(`node/${name}`);
  }

  /** @returns {FleetNode[]} by name */
  nodes() {
    if (this.order === null) {
      this.order = [];
      for (const name of this.parts.keys()) if (name.startsWith("node/")) this.order.push(name);
      this.order.sort(byName.compare);
    }
    return this.order.map((name) => this.parts.get(name));
  }

  /** Findings about pods, the one that waits longest first. */
  pods() {
    return this.all("pod/").sort((a, b) => (a.since ?? "~").localeCompare(b.since ?? "~"));
  }

  /** Kinds of trouble of nodes with the nodes that have it, along the chain, most nodes first. */
  troubles() {
    const groups = new Map();
    for (const node of this.nodes()) {
      if (!node.finding) continue;
      const key = `${node.finding.id} ${node.stage}`;
      if (!groups.has(key)) groups.set(key, { finding: node.finding, stage: node.stage, nodes: [] });
      groups.get(key).nodes.push(node);
    }
    return [...groups.values()].sort(
      (a, b) => STAGES.indexOf(a.stage) - STAGES.indexOf(b.stage) || b.nodes.length - a.nodes.length);
  }

  totals() {
    const totals = { nodes: 0, ready: 0, devices: 0, offered: 0, instances: 0, instancesOffered: 0 };
    for (const [name, part] of this.parts) {
      if (!name.startsWith("node/")) continue;
      totals.nodes += 1;
      if (part.ready) totals.ready += 1;
      for (const group of part.gpus?.groups ?? []) {
        if (group.profile) {
          totals.instances += group.count;
          totals.instancesOffered += group.offered;
        } else {
          totals.devices += group.count;
          totals.offered += group.offered;
        }
      }
    }
    return totals;
  }
}

/** How a link of a node's chain is: "good", "bad", "after" (behind the broken one) or "none" (it has no such link). */
export function linkState(node, stage) {
  const place = node.chain.indexOf(stage);
  if (place < 0) return "none";
  if (node.ready) return "good";
  const broken = node.chain.indexOf(node.stage);
  return place < broken ? "good" : place === broken ? "bad" : "after";
}
