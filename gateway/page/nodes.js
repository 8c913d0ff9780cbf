// The nodes of a cluster, in the head of the page: how many are down, and which platforms each of them has.
import { bytes, count } from "./words.js";

export function show(element, nodes) {
  const down = nodes.filter((node) => node.down).length;
  element.textContent += ` · ${down ? `${down} of ` : ""}${count(nodes.length, "node")}${down ? " down" : ""}`;
  element.className = down ? "tone-fail" : "";
  element.title = [element.title, ...nodes.map((node) => `${node.address}: ${node.down ? "down" : bytes(node.memoryBytes)}: ${node.platforms.join(", ")}`)].join("\n");
}
