-- line: see where a job stands in line, and what holds it or its platform up; bounded.
-- Script  tending
-- Uses  entries gates lease places rates
-- KEYS  record jobs fronts leases unfinished suspects control starts
-- ARGV  key     the job's key
--       owners  the consumers of its platform that are alive, separated by spaces
-- Rules  max_running max_running_per_process lane order rate rate_ms max_running_per_key key_rate key_rate_ms
-- Returns  seven lists, nothing where nothing holds it up: <now in ms> <paused by> <held until> <closed by the rate until> <how many run> <1: it is on its last chance>; <how many stand before it> <1: exactly> <the last of them>, or nothing of it; <1: as many of its limit key run as may> <closed by the rate of its limit key until> <how many wait for it before this one>; <the job of its order that it waits for> <1: which runs> <the job that nothing starts before>; <1: as many run as may> <1: as many in its lane> <1: as many in each of the consumers>; key and marks, in turn, of some that run; each platform of its lane where something runs, and how much
local PAGE = 100 -- entries that are looked at from either end of its line, and leases
local state, job = places.standing(record)

local function pends(from, to, count)
  local found = redis.pcall('XPENDING', keys.jobs[job.band], GROUP, from, to, count) -- protected: there may be no group yet
  return #found
end

-- How many of a line no consumer was given, and up to where it was read.
local function unread(band)
  local last, pending = entries.handed_out_to(band)
  return call('XLEN', keys.jobs[band]) - pending, last
end

-- Counts from the head of its line, or from the tail when that is nearer; of one in the middle only so far.
local function count_line(band)
  local all, last = unread(band)
  local ahead = call('XRANGE', keys.jobs[band], '(' .. last, '(' .. job.entry, 'COUNT', PAGE)
  if #ahead < PAGE then
    local resting = pends('(' .. last, '(' .. job.entry, PAGE)
    return #ahead - resting, '1', #ahead > 0 and resting == 0 and ahead[#ahead][2][2]
  end
  local behind = #call('XRANGE', keys.jobs[band], '(' .. job.entry, '+', 'COUNT', PAGE)
  if behind < PAGE then
    return all - 1 - behind + pends('(' .. job.entry, '+', PAGE), '1', false
  end
  return PAGE - pends('(' .. last, ahead[PAGE][1], PAGE), '0', false
end

local function count_before()
  local foremost = call('ZSCORE', keys.fronts.urgent, key) -- one that goes before all stands there, whatever its band
  local place = foremost and 'urgent' or job.band
  local score = foremost or call('ZSCORE', keys.fronts[job.band], key)
    or state == 'delayed' and entries.acceptance(job.entry)
  local pending = pends(job.entry, job.entry, 1) == 1
  if pending and not score then
    return {} -- it waits beside the line
  end
  local before = 0
  for _, band in ipairs(BANDS) do
    if band == place then
      break
    end
    before = before + call('ZCARD', keys.fronts[band]) + unread(band)
  end
  if pending then
    local nearest = call('ZRANGE', keys.fronts[place], '(' .. score, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1)[1]
    return { before + call('ZCOUNT', keys.fronts[place], '-inf', '(' .. score), '1', nearest or false }
  end
  local count, exact, nearest = count_line(place)
  nearest = nearest or count == 0 and call('ZRANGE', keys.fronts[place], -1, -1)[1]
  return { before + call('ZCARD', keys.fronts[place]) + count, exact, nearest or false }
end

local runs, some, running = call('HLEN', keys.leases), {}, {}
if runs <= PAGE then
  some = call('HVALS', keys.leases)
else
  local found = call('HSCAN', keys.leases, 0, 'COUNT', PAGE)[2] -- nonce and lease in turn; may be a few more
  for n = 2, math.min(#found, 2 * PAGE), 2 do
    some[#some + 1] = found[n]
  end
end
for _, text in ipairs(some) do
  local runner, attempt = lease.read(text)
  if runner then
    running[#running + 1], running[#running + 2] = runner, attempt.marks
  end
end

local limit, label = lease.mark(job.marks, 'limit'), lease.mark(job.marks, 'order')
local of_limit, of_order = {}, { false, false, false }
if limit then
  of_limit = { gates.full(limit, max_running_per_key) and 1, gates.closed_until(limit, key_rate, key_rate_ms) or false,
    call('ZRANK', key_of('parked', limit), key) }
end
if label then
  local before, is_running = gates.before(label, key)
  of_order[1], of_order[2] = before or false, is_running and 1 or false
end
local first = order == 'strict' and call('ZRANGE', keys.unfinished, 0, 0)[1]
of_order[3] = first and first ~= key and first

local limited = tonumber(max_running) > 0
local in_lane, of_lane = gates.taken_in_lane(lane)
local free = limited and gates.free_slots(max_running)
local slots = { limited and free <= 0 and 1, limited and in_lane > 0 and free - in_lane <= 0 and 1,
  gates.processes_full(owners, max_running_per_process, lane) and 1 }

local held_ms = rates.held_until()
return {
  { now_ms, call('HGET', keys.control, 'paused'), held_ms > tonumber(now_ms) and format('%.0f', held_ms),
    rates.closed_until(keys.starts, rate, rate_ms) or false, runs, call('ZSCORE', keys.suspects, key) and 1 },
  count_before(), of_limit, of_order, slots, running, of_lane }
