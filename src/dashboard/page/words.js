// Numbers, times and names as people read them.

const numbers = new Intl.NumberFormat("en");

/** @param {number} value */
export function number(value) {
  return numbers.format(value);
}

/** "1 node", "2 nodes". */
export function count(value, one, many = `${one}s`) {
  return `${number(value)} ${value === 1 ? one : many}`;
}

/**
 * "47s", "12m", "5h", "3d", as the command line tells it; "" when it is not known.
 * @param {string|undefined} since RFC 3339
 * @param {number} now milliseconds
 */
export function age(since, now) {
  if (!since) return "";
  const seconds = Math.max(0, Math.floor((now - Date.parse(since)) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

/** A moment of this machine's clock: "09:12:31". */
export function clock(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString("en-GB");
}

/** "2026-01-05 12:10 UTC" */
export function day(text) {
  return `${text.slice(0, 10)} ${text.slice(11, 16)} UTC`;
}

/** "NVIDIA-H100-80GB-HBM3" to "H100 80GB HBM3". */
export function model(product) {
  return (product ?? "").replace(/^NVIDIA-/, "").replaceAll("-", " ");
}

/** MiB as GB of the size that products are named by. */
export function gigabytes(mib) {
  return `${Math.round(mib / 1024)} GB`;
}

/** A link of the chain: "pci-device" to "PCI device". */
export function stage(name) {
  return name === "pci-device" ? "PCI device" : name.replaceAll("-", " ");
}
