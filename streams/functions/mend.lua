-- mend: put jobs that no list names back in line: a page of what was handed out, or the jobs that are named.
-- Script  tending
-- Uses  ends entries lease places
-- KEYS  jobs fronts suspects due alarms awaiting limits orders leases beats
-- ARGV  names   keys of the jobs to look at, separated by spaces; empty: the next page
--       cursor  where the last page ended, as it was answered; empty: at the beginning
--       most    how many entries to look at; one that is put right counts as three
-- Returns  <cursor, empty at the end> <how many owners beat> then the key of each job that was put right
flush_leases()
local PIECE, BYTES = 20, 256 * 1024 -- entries in one read; args that come along with all of them
local delivered = {} -- band -> up to which entry its line was handed out

local function comes_by_itself(job)
  delivered[job.band] = delivered[job.band] or entries.handed_out_to(job.band)
  return entries.is_after(job.entry, delivered[job.band])
end

-- Whether an attempt that has no lease any more was put back in line: it could neither end nor be taken over.
local function lost_its_lease(record, key, job)
  local field = call('HMGET', record, 'nonce', 'owner', 'started')
  if field[1] and call('HEXISTS', keys.leases, field[1]) == 1 then
    return false
  end
  -- The lease knew how far the history goes. The event `started` is not in it before the attempt's next event.
  local written, first = call('LLEN', key_of('log', key)) + 1, tonumber(match(field[3] or '', '^(%d+)-') or 0)
  job.owner, job.seq, job.started = field[2], math.max(written, first), written < first and field[3] or '-'
  if not ends.stranded(record, key, job) then
    places.back_in_line(record, key, job, 'lost')
  end
  call('HSET', record, 'nonce', '')
  return true
end

-- Whether a job waits for its order: another one runs, or stands before it and will go on.
local function waits_for_order(key, job, order)
  local line, running = key_of('order', order), call('HGET', keys.orders, order)
  if running and running ~= key and call('HGET', key_of('job', running), 'state') == 'running' then
    return true
  end
  call('ZADD', line, 'NX', entries.acceptance(job.entry), key)
  for _, head in ipairs(call('ZRANGE', line, 0, 9)) do
    local state = redis.pcall('HGET', key_of('job', head), 'state')
    if head == key then
      return false
    elseif state == 'waiting' or state == 'delayed' or state == 'awaiting' or state == 'running' then
      return true
    end
    call('ZREM', line, head) -- it has ended, or is not kept any more
  end
  return true
end

-- Whether a job is parked for its limit key, and will be called: by the end of another one, by an alarm, or by the
-- first one that is parked there.
local forward = {} -- limit keys of jobs that came forward in this call
local function waits_for_limit(key, limit)
  local place = call('ZRANK', key_of('parked', limit), key)
  return place and (place > 0 or forward[limit] or call('HEXISTS', keys.limits, limit) == 1
    or call('ZSCORE', keys.alarms, '*' .. limit))
end

local function named(key, job)
  local order, limit = lease.mark(job.marks, 'order'), lease.mark(job.marks, 'limit')
  return call('ZSCORE', keys.fronts[job.band], key) or call('ZSCORE', keys.fronts.urgent, key)
    or call('ZSCORE', keys.suspects, key) or (limit and waits_for_limit(key, limit)) or (order and waits_for_order(key, job, order))
end

-- Whether a job that awaits something was put right: what it awaits is there, or would not be noticed. One that is named
-- goes on in any case, and awaits again what is not there.
local function awaits_in_vain(record, key, job)
  local field = call('HMGET', record, 'wanted', 'until_ms')
  local name = match(job.awaits or '', '^signal (%S+) ')
  if names ~= '' or name and call('HEXISTS', key_of('signals', key), name) == 1
    or not name and tonumber(field[1] or 0) <= 0 then
    places.go_on(record, key, job)
    return true
  end
  local listed = call('ZADD', keys.awaiting, 'NX', now_ms, key)
  return listed + (field[2] and call('ZADD', keys.alarms, 'NX', field[2], '^' .. key) or 0) > 0
end

-- Whether one job was put right.
local function put_right(key)
  local record = key_of('job', key)
  local state, job = places.standing(record)
  if state == 'running' then
    return lost_its_lease(record, key, job)
  elseif state ~= 'waiting' and state ~= 'delayed' and state ~= 'awaiting' then
    return false
  end
  local before = job.entry
  if names ~= '' and #call('XRANGE', keys.jobs[job.band], before, before) == 0 then
    if not entries.can_go_on(key, job) then
      places.leave(key, job)
      ends.stranded(record, key, job)
      return true
    end
    entries.hold(record, key, job)
  end
  if state == 'awaiting' then
    return awaits_in_vain(record, key, job)
  elseif state == 'delayed' and not call('ZSCORE', keys.due, key) then
    call('ZADD', keys.due, now_ms, key) -- the time for which it should rest is lost
    ring()
    return true
  elseif state == 'waiting' and not comes_by_itself(job) and not named(key, job) then
    local limit = lease.mark(job.marks, 'limit')
    if limit then
      call('ZREM', key_of('parked', limit), key)
      forward[limit] = true
    end
    places.come_forward(key, entries.acceptance(job.entry), job.band)
    return true
  end
  return job.entry ~= before
end

local answer = { '', call('HLEN', keys.beats) }
local left = tonumber(most)

local function look_at(key)
  left = left - 1
  local fine, mended = pcall(put_right, key)
  if fine and mended then
    left = left - 2
    answer[#answer + 1] = key
  end
end

for key in string.gmatch(names, '%S+') do
  look_at(key)
end
if names ~= '' then
  return answer
end

local start, last = match(cursor, '^(%S+) (%S+)$')
local bytes = 0
for _, band in ipairs(BANDS) do
  if not start or band == start then
    start, last = nil, last or '0-0'
    local done = call('EXISTS', keys.jobs[band]) == 0
    local up_to = done or entries.handed_out_to(band)
    while not done do
      if left <= 0 or bytes >= BYTES then
        answer[1] = band .. ' ' .. last
        return answer
      end
      local count = math.min(PIECE, left)
      local piece = call('XRANGE', keys.jobs[band], '(' .. last, up_to, 'COUNT', count)
      for _, entry in ipairs(piece) do
        local key = entry[2][2]
        local known = redis.pcall('HMGET', key_of('job', key), 'state', 'entry')
        if known[2] and known[2] ~= entry[1] or not known.err and not known[1] then
          add(settled, band, entry[1]) -- a leftover of a job that is not kept any more, or has another entry
          left = left - 1
        else
          look_at(key)
        end
        last, bytes = entry[1], bytes + #(entry[2][4] or '')
      end
      done = #piece < count
    end
    last = nil
  end
end
return answer
