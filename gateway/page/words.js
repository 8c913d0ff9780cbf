// How durations, times, sizes and states are written, and the addresses of jobs and lists.

// `whole`: no less than seconds, for what is counted up on the page.
export function duration(seconds, whole = false) {
  if (seconds == null) return "–";
  const s = Math.max(0, seconds);
  if (s < 1 && !whole) return `${Math.round(s * 1000)} ms`;
  if (s < 10 && !whole) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${pad(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${pad((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

const pad = (number) => String(Math.floor(number)).padStart(2, "0");

// A label of the time axis, without trailing zero units.
export const mark = (seconds) => (seconds < 60 ? `${+seconds.toFixed(1)} s` : duration(seconds).replace(/ 0+ \w+$/, ""));

export function bytes(n) {
  if (n == null) return "–";
  const [size, unit] = n >= 1e9 ? [n / 1e9, "GB"] : n >= 1e6 ? [n / 1e6, "MB"] : [n / 1e3, "KB"];
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${unit}`;
}

// The time of this page: it stands still while the connection is lost, and so does every age.
let stopped = 0;
export const now = () => stopped || Date.now();
export const stopAt = (ms) => (stopped = ms);

// Times of day are of this machine's zone, or UTC; which one is kept by the browser.
export const zone = {
  utc: kept("zone") === "utc",
  turn() {
    this.utc = !this.utc;
    keep("zone", this.utc ? "utc" : "local");
    document.dispatchEvent(new Event("redraw"));
  },
};

export function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch { /* then it holds for this page alone */ }
}

const shift = (time) => new Date(+new Date(time) - (zone.utc ? 0 : new Date(time).getTimezoneOffset() * 60_000)).toISOString();
const full = (time) => shift(time).slice(0, 19).replace("T", " ");
// The date of what is not of today, else "".
export const day = (time) => (shift(time).slice(0, 10) === shift(Date.now()).slice(0, 10) ? "" : shift(time).slice(0, 10));
export const clock = (time) => full(time).slice(day(time) ? 0 : 11);
export const precise = (time) => shift(time).slice(11, 23);
export const exact = (iso) => (iso ? `${full(iso)} ${zone.utc ? "UTC" : "local time"} (${iso})` : "");

export const count = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;
// The root of the gateway: `/`, or the path it is mounted at.
export const home = new URL("..", import.meta.url).pathname;
export const jobPath = (id) => `${home}jobs/${encodeURIComponent(id)}`;
export const listPath = (platform, state) => `${home}?platform=${encodeURIComponent(platform)}&state=${encodeURIComponent(state)}`;
export const keyOf = (id) => id.slice(id.indexOf(".") + 1);

// The colour of each word, the same everywhere.
export const TONES = {
  queued: "wait", waiting: "wait", delayed: "wait", awaiting: "wait", "waiting-children": "wait",
  running: "run", active: "run", started: "run", progress: "run", silent: "silent", cancelling: "cancel", superseded: "lost",
  retrying: "retry", failed: "fail", completed: "done", cancelled: "cancel", reopened: "wait",
};

// How far a numbered step is; a number without `of` is per cent already.
export function percent({ step, of }) {
  if (typeof step !== "number") return null;
  const share = of == null ? step : of > 0 ? (100 * step) / of : 100;
  return Math.min(100, Math.max(0, share));
}

export const pretty = (value) => (value === undefined ? "" : JSON.stringify(value, null, 2));
