-- entries: the entries of jobs in their lines: which were handed out, and how they are held for a job that is to go on.
-- Uses  ends places
-- KEYS  jobs

-- The place in line of an entry: its acceptance, as a number that keeps the order of entries within a millisecond.
function entries.acceptance(entry)
  local ms, n = match(entry, '^(%d+)-(%d+)$')
  return format('%.0f', ms * 4096 + n) -- n is large only while the clock is behind the last entry: ms stands still then
end

-- An entry pends under the reserved consumer, whether or not it was handed out or is still pending.
function entries.hold_by_force(band, entry)
  if redis.pcall('XCLAIM', keys.jobs[band], GROUP, FRONT, 0, entry, 'FORCE', 'JUSTID').err then -- a new line
    call('XGROUP', 'CREATE', keys.jobs[band], GROUP, 0)
    call('XCLAIM', keys.jobs[band], GROUP, FRONT, 0, entry, 'FORCE', 'JUSTID')
  end
end

-- Up to which entry a line was handed out: what is behind it comes by itself. And how many of them are pending.
function entries.handed_out_to(band)
  for _, facts in ipairs(redis.pcall('XINFO', 'GROUPS', keys.jobs[band])) do -- protected: there may be no such line
    local group = {}
    for i = 1, #facts, 2 do
      group[facts[i]] = facts[i + 1]
    end
    if group.name == GROUP then
      return group['last-delivered-id'], group.pending
    end
  end
  return '0-0', 0
end

function entries.is_after(entry, other)
  local ms, n = match(entry, '^(%d+)-(%d+)$')
  local other_ms, other_n = match(other, '^(%d+)-(%d+)$')
  return ms - other_ms > 0 or (ms == other_ms and n - other_n > 0)
end

-- Whether a job can go on: its entry is there, or can be written again because its args are kept beside it.
function entries.can_go_on(key, job)
  return #call('XRANGE', keys.jobs[job.band], job.entry, job.entry) > 0 or call('EXISTS', key_of('args', key)) == 1
end

-- The entry of a job that can go on pends under the reserved consumer, also when it was acknowledged by hand or went with
-- its deleted consumer. One that was deleted by hand is written again. Answers false when it was not handed out yet,
-- because its group was destroyed: then it comes from the line.
function entries.hold(record, key, job)
  local line = keys.jobs[job.band]
  if redis.pcall('XCLAIM', line, GROUP, FRONT, 0, job.entry, 'JUSTID')[1] then
    return true
  end
  if #call('XRANGE', line, job.entry, job.entry) == 0 then
    call('HSETNX', record, 'accepted', job.entry)
    job.entry = call('XADD', line, '*', 'id', key)
    call('HSET', record, 'entry', job.entry)
  elseif entries.is_after(job.entry, entries.handed_out_to(job.band)) then
    return false
  end
  entries.hold_by_force(job.band, job.entry)
  return true
end

-- The entry of a waiting job, for the owner that starts it, by force if need be. Nothing, when it is gone, or when it
-- comes from the line itself; `now`: it does not wait for that.
function entries.take(key, band, entry, owner, now)
  local found = redis.pcall('XCLAIM', keys.jobs[band], GROUP, owner, 0, entry)[1]
  if found then
    return found
  end
  local record = key_of('job', key)
  local _, job = places.standing(record)
  if ends.stranded(record, key, job) then
    return places.leave(key, job)
  end
  local held_back = entries.hold(record, key, job)
  if now and not held_back then
    entries.hold_by_force(band, job.entry)
  end
  if now or held_back then
    return call('XCLAIM', keys.jobs[band], GROUP, owner, 0, job.entry)[1]
  end
end
