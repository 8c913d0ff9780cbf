-- history: the events of jobs, as they are kept and as the live feed gets them.

-- A time of the store as events show it.
function history.iso(ms)
  local seconds = math.floor(ms / 1000)
  local day = math.floor(seconds / 86400)
  -- civil date of a day number: count years from 1 March, so that leap days come last
  local z = day + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  local rest = seconds - day * 86400
  return format('%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', yoe + era * 400 + (month <= 2 and 1 or 0), month,
    doy - math.floor((153 * mp + 2) / 5) + 1, math.floor(rest / 3600), math.floor(rest / 60) % 60, rest % 60, ms % 1000)
end

-- A number as text, and one more. The way through floating point takes a microsecond, and a batch does this hundreds of
-- times, most often for the same few numbers.
local AFTER_NUMBER = {}
function history.plus_one(number)
  local after = AFTER_NUMBER[number]
  if not after then
    after = format('%d', number + 1)
    AFTER_NUMBER[number] = after
  end
  return after
end

local FEED_BYTES = 4096 -- a larger event is a pointer in the feed

-- An event as it is kept: `<seq>-<microsecond><number within this call> <attempt> <status> <worker> <step and more>`,
-- so that no two jobs ever share an id; readers make the event of it that a client gets. Nothing is `~`.
function history.next_id(seq)
  return seq .. '-' .. now_us .. format('%d', told)
end

function history.tell(key, seq, entry)
  local place = 2 * told
  feed[place + 1] = key .. ' ' .. seq
  feed[place + 2] = #entry <= FEED_BYTES and entry or ''
  told = told + 1
end

-- Events that the store itself makes.
function history.body(attempt, status, worker, more)
  return (attempt or '~') .. ' ' .. status .. ' ' .. (worker or '~') .. ' null' .. (more or '') .. '}'
end

-- Appends an event to a job's history and to the live feed; answers its number. `before`: what goes before it.
function history.append(log, key, seq, event, before)
  seq = history.plus_one(seq)
  local entry = seq .. '-' .. now_us .. format('%d', told) .. ' ' .. event
  if before then
    call('RPUSH', log, before, entry)
  else
    call('RPUSH', log, entry)
  end
  history.tell(key, seq, entry)
  return seq
end

-- The same with several events.
function history.append_all(log, key, seq, events, before)
  local entries, seqs = {}, {}
  for i = 1, #events do
    seq = history.plus_one(seq)
    seqs[i], entries[i] = seq, seq .. '-' .. now_us .. format('%d', told + i - 1) .. ' ' .. events[i]
  end
  call('RPUSH', log, before or entries[1], unpack(entries, before and 1 or 2))
  for i = 1, #events do
    history.tell(key, seqs[i], entries[i])
  end
  return seq
end

-- The lines of a text: of the last `wanted` of them the first `room`, how many lines there are, and how many had no room.
function history.lines(text, wanted, room)
  local all = {}
  for line in string.gmatch(text, '[^\n]+') do
    all[#all + 1] = line
  end
  local first = math.max(1, #all - wanted + 1)
  local last = math.min(#all, first + math.max(0, room) - 1)
  return { unpack(all, first, last) }, #all, #all - last
end

function history.started(id, attempt, owner)
  return id .. ' ' .. attempt .. ' started ' .. owner .. ' null}'
end

-- The event `started` is not written when an attempt opens, its record tells it: it goes into the history with the
-- attempt's next event.
function history.opening(job)
  return job.started and job.started ~= '-' and history.started(job.started, job.attempt, job.owner)
end

function history.emit(key, job, event, log)
  return history.append(log or key_of('log', key), key, job.seq, event, history.opening(job))
end
