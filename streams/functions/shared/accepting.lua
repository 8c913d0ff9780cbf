-- accepting: how new work comes in line, for every transition that brings some: `submit` and `tick`.
-- Uses  entries history lease places
-- KEYS  jobs fronts due alarms

-- Accepts a job once; the header of `submit` has its arguments and answers.
function accepting.accept(record, args, key, band, kind, payload, fingerprint, room, extras)
  local known = call('HGET', record, 'state')
  if known then
    if call('HGET', record, 'fingerprint') ~= fingerprint then
      return { 'conflict' }
    end
    call('HSET', record, 'fingerprint', fingerprint) -- for a WAIT behind this call, as in `lease.own`
    local parent = lease.mark(' ' .. extras, 'parent')
    if parent and known ~= 'completed' and known ~= 'failed' and known ~= 'cancelled' then
      lease.tell_end_to(record, key, parent) -- it may have been detached from an earlier life of its parent
    end
    return { 'again', known }
  end

  local extra, until_ms
  if #extras > 0 then
    extra = {}
    for name, value in string.gmatch(extras, '(%S-)=(%S+)') do
      extra[name] = value
    end
    until_ms = extra.run_at_ms or extra.delay_ms and now_ms + extra.delay_ms
    if until_ms and tonumber(until_ms) <= tonumber(now_ms) then
      until_ms = nil
    end
    if extra.dedupe then
      local taken = key_of('dedupe', extra.dedupe)
      local other = call('GET', taken)
      local state = other and call('HGET', key_of('job', other), 'state')
      if state then
        if extra.mode == 'debounce' and state == 'delayed' and until_ms and
          call('HGET', key_of('job', other), 'attempt') == false then -- the newest asks, the oldest waits
          call('SET', key_of('args', other), payload)
          call('HSET', key_of('job', other), 'kind', kind, 'options', extra.options or '')
          call('ZADD', keys.due, until_ms, other)
          if extra.run_at_ms then
            call('HDEL', key_of('job', other), 'rest_ms')
          else
            places.note_length(key_of('job', other), extra.delay_ms)
          end
          call('ZREM', keys.alarms, '!' .. other)
          if extra.expires_ms then
            call('ZADD', keys.alarms, extra.expires_ms, '!' .. other)
          end
          ring()
          return { 'replaced', other, state }
        end
        call('SET', taken, other, 'KEEPTTL') -- the same
        return { 'duplicate', other, state }
      end
      call('SET', taken, key)
      if extra.ttl_ms then
        call('PEXPIRE', taken, extra.ttl_ms)
      end
    end
  end

  local entry
  if #payload - room > 0 or until_ms then -- what starts later may be replaced until then
    call('SET', args, payload)
    entry = call('XADD', keys.jobs[band], '*', 'id', key)
  else
    entry = call('XADD', keys.jobs[band], '*', 'id', key, 'args', payload)
  end
  call('HSET', record, 'state', until_ms and 'delayed' or 'waiting', 'kind', kind, 'entry', entry,
    'fingerprint', fingerprint)
  if band ~= 'normal' then -- as most are: a record without a band costs 16 bytes less
    call('HSET', record, 'band', band)
  end
  ring()
  if #extras == 0 then
    return { 'accepted', 'waiting' }
  end

  if extra.options then
    call('HSET', record, 'options', extra.options)
  end
  local marks = {}
  for _, name in ipairs({ 'order', 'limit', 'keep', 'dedupe', 'parent' }) do
    if extra[name] and not (name == 'dedupe' and extra.mode == 'throttle') then
      marks[#marks + 1] = name .. '=' .. extra[name]
    end
  end
  if #marks > 0 then
    call('HSET', record, 'marks', table.concat(marks, ' '))
  end
  if extra.dedupe then
    call('HSET', record, 'dedupe', extra.dedupe)
  end
  if extra.order then
    local line, place = key_of('order', extra.order), entries.acceptance(entry)
    local last = call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
    if last and tonumber(last) >= tonumber(place) then -- accepted in the same millisecond, in another band
      place = format('%.0f', last + 1)
    end
    call('ZADD', line, place, key)
  end
  if extra.expires_ms then
    call('ZADD', keys.alarms, extra.expires_ms, '!' .. key)
  end
  if until_ms or extra.first then -- its entry pends under the reserved consumer: it does not wait in line
    entries.hold_by_force(band, entry)
  end
  if until_ms then
    local event = history.body(nil, 'delayed', nil, ',"until":"' .. history.iso(tonumber(until_ms)) .. '"')
    call('HSET', record, 'seq', history.emit(key, { seq = 1 }, event))
    call('ZADD', keys.due, until_ms, key)
    if not extra.run_at_ms then
      places.note_length(record, extra.delay_ms)
    end
    return { 'accepted', 'delayed' }
  end
  if extra.first then
    local foremost = call('ZRANGE', keys.fronts.urgent, 0, 0, 'WITHSCORES')[2]
    call('ZADD', keys.fronts.urgent, format('%.0f', math.min(-entries.acceptance(entry), (foremost or 0) - 1)), key)
  end
  return { 'accepted', 'waiting' }
end
