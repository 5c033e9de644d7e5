// GPUs as tiles: what the cluster knows of them in a row, and with the exporter's readings in full.
import { make } from "./dom.js";
import { count, gigabytes, number } from "./words.js";

const MOST_TILES = 16; // of a row; more become a number

/** @param {import("./model.js").Group} group */
function kindOf(group) {
  if (group.profile) return group.profile;
  return group.resource === "nvidia.com/gpu" ? "" : group.resource.replace(/^nvidia\.com\//, "");
}

/** What the tiles of a node say, in words. @param {import("./model.js").FleetNode} node */
export function gpuWords(node) {
  const groups = node.gpus?.groups ?? [];
  if (groups.length === 0) return node.gpus?.count ? count(node.gpus.count, "GPU") : "GPUs not known";
  return groups.map((group) => {
    const kind = kindOf(group) || "GPU";
    const bad = group.count - group.offered;
    const what = `${number(group.count)} ${kind}${group.count === 1 || group.profile ? "" : "s"}`;
    return bad === 0 ? what : `${what}, ${number(bad)} of them not offered`;
  }).join("; ");
}

function tile(state, text = "") {
  return make("span", { class: `tile ${state}`, text });
}

/** Whole devices, one tile each; instances as one tile of their size with their number. */
export function rowTiles(node) {
  const parts = [];
  for (const group of node.gpus?.groups ?? []) {
    const bad = group.count - group.offered;
    if (group.profile) {
      const size = make("span", { class: `size${bad > 0 ? " bad" : ""}` });
      size.style.setProperty("--slices", group.slices || 1);
      parts.push(make("span", { class: "many" }, size, `${group.count} \u00d7 ${group.profile}`,
        bad > 0 && make("span", { class: "lacking", text: ` ${bad} not offered` })));
      continue;
    }
    const kind = kindOf(group);
    const tiles = make("span", { class: "tiles" });
    if (group.count > MOST_TILES) {
      tiles.append(tile("good"), ` \u00d7${group.count}`);
      if (bad > 0) tiles.append(make("span", { class: "lacking", text: ` ${bad} not offered` }));
    } else {
      for (let i = 0; i < group.offered; i += 1) tiles.append(tile("good"));
      for (let i = 0; i < bad; i += 1) tiles.append(tile("bad", "\u00d7"));
    }
    parts.push(tiles);
    if (kind) parts.push(make("span", { class: "kind", text: kind }));
  }
  if (parts.length === 0) parts.push(make("span", { class: "faint", text: "?" }));
  if (node.gpus?.sharing) parts.push(make("span", { class: "kind", text: `shared by ${node.gpus.replicas}` }));
  return parts;
}

function bar(share, label) {
  const filled = make("span", { class: "bar-part" });
  filled.style.setProperty("--share", `${Math.round(100 * Math.min(1, Math.max(0, share)))}%`);
  return make("span", { class: "bar", role: "img", "aria-label": label }, filled);
}

/** Pods as a list, or that nobody has it. */
function holders(reading) {
  if (reading.pods.length === 0) return make("span", { class: "faint", text: "no pod" });
  return make("ul", { class: "holders" }, ...reading.pods.map((pod) => make("li", { class: "mono", text: pod })));
}

function readings(gpu) {
  const facts = [];
  const fact = (name, text, ...more) =>
    facts.push(make("div", { class: "fact" }, make("dt", { text: name }), make("dd", {}, text, ...more)));
  if (gpu.utilisation !== undefined) {
    fact("busy", `${number(gpu.utilisation)} %`, bar(gpu.utilisation / 100, `${gpu.utilisation} per cent busy`));
  }
  if (gpu.memoryUsedMiB !== undefined) {
    const all = gpu.memoryUsedMiB + (gpu.memoryFreeMiB ?? 0);
    const text = gpu.memoryFreeMiB === undefined ? gigabytes(gpu.memoryUsedMiB)
      : `${gigabytes(gpu.memoryUsedMiB)} of ${gigabytes(all)}`;
    fact("memory", text, gpu.memoryFreeMiB !== undefined && all > 0 ? bar(gpu.memoryUsedMiB / all, text) : "");
  }
  if (gpu.temperature !== undefined) fact("temperature", `${number(gpu.temperature)} \u00b0C`);
  if (gpu.power !== undefined) fact("power", `${number(Math.round(gpu.power))} W`);
  if (gpu.xid) fact("last XID", number(gpu.xid));
  return make("dl", { class: "facts" }, ...facts);
}

/** Instances to scale; what is not divided is left empty. Which pods have one is told where `pods` is known. */
function strip(instances, slices) {
  const box = make("div", { class: "strip" });
  const all = Math.max(slices, instances.reduce((sum, one) => sum + (one.slices ?? 1), 0));
  box.style.setProperty("--all", all);
  for (const one of instances) {
    const held = one.pods?.length > 0;
    const told = one.pods ? (held ? `: ${one.pods.join(", ")}` : ": no pod") : "";
    const part = make("span", { class: `slice${held ? " held" : ""}`, title: one.profile + told,
                                // A name that does not fit is no name.
                                text: (one.slices ?? 1) / all > 0.13 ? one.profile : "" });
    part.style.setProperty("--slices", one.slices ?? 1);
    box.append(part);
  }
  return box;
}

/** GPUs with the exporter's readings. */
export function readTiles(gpus, slicesEach) {
  return make("ul", { class: "gpus" }, ...gpus.map((gpu) => make("li", { class: `gpu${gpu.xid ? " warned" : ""}` },
    make("h4", {}, `GPU ${gpu.index}`, make("span", { class: "faint", text: ` ${gpu.model}` })),
    readings(gpu),
    gpu.instances.length === 0 ? holders(gpu) : strip(gpu.instances, slicesEach || 7),
    gpu.instances.length > 0 && make("ul", { class: "instances" }, ...gpu.instances.map((one) => make("li", {},
      make("span", { class: "mono", text: `${one.profile} ` }),
      one.memoryUsedMiB === undefined ? "" : `${gigabytes(one.memoryUsedMiB)} in use `,
      one.xid ? make("span", { class: "lacking", text: `XID ${one.xid} ` }) : "",
      holders(one)))))));
}

/** GPUs as labels and resources tell them, where nobody gives readings. */
export function knownTiles(node) {
  const groups = node.gpus?.groups ?? [];
  const whole = groups.filter((group) => !group.profile);
  const parts = groups.filter((group) => group.profile);
  const instances = parts.flatMap((group) => Array.from({ length: Math.min(group.count, 112) }, () => group));
  const all = (node.gpus?.count ?? 0) - whole.reduce((sum, group) => sum + group.count, 0);
  return make("div", { class: "known" },
    ...whole.map((group) => make("p", {}, make("span", { class: "tiles large" },
      ...Array.from({ length: Math.min(group.count, 64) }, (_, i) =>
        tile(i < group.offered ? "good" : "bad", i < group.offered ? "" : "\u00d7"))),
    ` ${number(group.offered)} of ${number(group.count)} `, make("span", { class: "mono", text: group.resource }), " offered")),
    instances.length > 0 && strip(instances, Math.max(0, all) * (node.gpus.slicesEach ?? 7)),
    ...parts.map((group) => make("p", {}, `${number(group.offered)} of ${number(group.count)} `,
      make("span", { class: "mono", text: group.resource }), " offered")),
    groups.length === 0 && make("p", { class: "faint", text: "Nothing is offered, and no label tells of GPUs." }));
}
