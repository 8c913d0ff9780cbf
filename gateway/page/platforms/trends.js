// The last ten minutes of a platform: waiting jobs as a line, ended jobs as bars by outcome.

import { ask } from "../api.js";
import { h } from "../dom.js";
import { TONES } from "../words.js";

const [WIDTH, HEIGHT, SAMPLES, BARS] = [120, 24, 60, 30];
const AGAIN_MS = 10_000;
const OUTCOMES = ["completed", "failed", "cancelled"]; // from the floor up

export class Trends {
  constructor() {
    this.known = {};
    this.every = 10;
    this.asked = 0;
  }

  async look() {
    if (Date.now() - this.asked < AGAIN_MS) return;
    this.asked = Date.now();
    const { data } = await ask("/api/trends");
    this.known = data.platforms;
    this.every = data.everySeconds;
  }

  // `waiting`: how many jobs wait now. Times before the gateway started are left empty.
  of(platform, waiting) {
    const { depth = [], ...ended } = this.known[platform] ?? {};
    const depths = pad([...depth, waiting], SAMPLES);
    const bars = OUTCOMES.map((outcome) => barsOf(pad(ended[outcome] ?? [], SAMPLES)));
    const totals = OUTCOMES.map((outcome) => sum(ended[outcome] ?? []) ?? 0);
    const seen = (ended.completed ?? []).filter((n) => n != null).length * this.every;
    return { depths, bars, totals, minute: seen ? (60 * sum(totals)) / seen : 0, most: Math.max(0, ...depths), waiting };
  }
}

const pad = (list, length) => [...Array(Math.max(0, length - list.length)).fill(null), ...list.slice(-length)];
const sum = (list) => (list.some((n) => n != null) ? list.reduce((total, n) => total + (n ?? 0), 0) : null);
const barsOf = (ended) => Array.from({ length: BARS }, (_, i) => sum(ended.slice((i * SAMPLES) / BARS, ((i + 1) * SAMPLES) / BARS)) ?? 0);
const rate = (n) => (n >= 10 ? Math.round(n) : +n.toFixed(1));

export const legend = () => h("p", { class: "legend" }, h("span", { class: "tone-wait" }, h("i", { class: "line" }), "waiting"),
  OUTCOMES.map((outcome) => h("span", { key: outcome, class: `tone-${TONES[outcome]}` }, h("i"), outcome)));

export function sparkline({ depths, bars, totals, minute, most, waiting }) {
  const ended = totals.map((n, i) => `${n} ${OUTCOMES[i]}`).join(", ");
  const words = `last 10 min: ${ended}; waiting now ${waiting}, at most ${most}`;
  const top = Math.max(4, most);
  const y = (depth) => (HEIGHT - 1.5 - (depth / top) * (HEIGHT - 4)).toFixed(1);
  const x = (i) => ((i * WIDTH) / (SAMPLES - 1)).toFixed(1);
  const tallest = Math.max(4, ...bars[0].map((_, i) => bars.reduce((all, each) => all + each[i], 0)));
  const path = depths.map((depth, i) => (depth == null ? "" : `${depths[i - 1] == null ? "M" : "L"}${x(i)} ${y(depth)}`)).join("");
  const step = WIDTH / BARS;
  const height = (n) => (n / tallest) * (HEIGHT - 5);
  const bar = (outcome, n, i) => {
    const below = bars.slice(0, outcome).reduce((all, each) => all + each[i], 0);
    return n > 0 && h("rect", { key: `${outcome} ${i}`, class: `tone-${TONES[OUTCOMES[outcome]]}`, x: (i * step).toFixed(1), width: (step - 1).toFixed(1),
      y: (HEIGHT - 1 - height(below + n)).toFixed(1), height: height(n).toFixed(1) });
  };
  return h("span", { class: "trend", title: words },
    h("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": words },
      h("path", { class: "floor", d: `M0 ${HEIGHT - 0.5}H${WIDTH}` }),
      bars.map((each, outcome) => each.map((n, i) => bar(outcome, n, i))),
      h("path", { key: "line", class: "line", d: path }),
      h("circle", { key: "now", cx: WIDTH, cy: y(waiting), r: 1.8 })),
    h("small", null, minute > 0 ? `${rate(minute)}/min` : ""));
}
