// How things are said: durations, times, states, and where a job is found.

export function duration(seconds) {
  if (seconds == null) return "–";
  const s = Math.max(0, seconds);
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${pad(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${pad((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

const pad = (number) => String(Math.floor(number)).padStart(2, "0");

// A mark of a time axis: no more of it than its step tells apart.
export function mark(seconds) {
  if (seconds < 60) return `${+seconds.toFixed(2)} s`;
  const rest = Math.round(seconds % 60);
  if (seconds < 3600) return rest ? `${Math.floor(seconds / 60)} m ${pad(rest)} s` : `${Math.floor(seconds / 60)} min`;
  const minutes = Math.round((seconds % 3600) / 60);
  return minutes ? `${Math.floor(seconds / 3600)} h ${pad(minutes)}` : `${Math.floor(seconds / 3600)} h`;
}

export const since = (seconds) => (seconds < 1 ? "just now" : `${duration(seconds)} ago`);
export const ago = (iso) => (iso ? since((Date.now() - Date.parse(iso)) / 1000) : "–");
export const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });
export const exact = (iso) => (iso ? `${new Date(iso).toLocaleString()} (${iso})` : "");
export const count = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;
export const jobPath = (id) => `/jobs/${encodeURIComponent(id)}`;
export const listPath = (platform, state) => `/?platform=${encodeURIComponent(platform)}&state=${encodeURIComponent(state)}`;
export const keyOf = (id) => id.slice(id.indexOf(".") + 1);

// A made-up key is long and alike at its front: its end tells more.
export const short = (id) => {
  const key = keyOf(id);
  return key.length > 20 ? `…${key.slice(-12)}` : key;
};

// The colour of each word, the same everywhere.
export const TONES = {
  queued: "wait", waiting: "wait", delayed: "wait", awaiting: "wait", "waiting-children": "wait",
  active: "run", started: "run", progress: "run", silent: "silent", cancelling: "cancel", superseded: "lost",
  retrying: "retry", failed: "fail", completed: "done", cancelled: "cancel", reopened: "wait",
};

export const pretty = (value) => (value === undefined ? "" : JSON.stringify(value, null, 2));
