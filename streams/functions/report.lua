-- report: show one step of a running attempt, at most once.
-- KEYS  record  hash    the fence, the running number and the progress of the job
--       log     list    the job's history
--       events  stream  the live feed
-- ARGV  key       the job's key
--       nonce     the fence: refused unless it is the current one
--       number    the attempt's running number of this report: a repeated one was shown before
--       progress  per cent, or empty
--       event     the rest of the event, JSON
-- Returns  shown | again | lost
local job, refusal, past = fence(record, nonce, nil, 'reported')
if tonumber(number) <= tonumber((job or past or {}).extra or 0) then
  return 'again'
end
if not job then
  return refusal
end
local seq = plus_one(job.seq)
emit(key, seq, event)
call('HSET', record, 'seq', seq, 'reported', number, 'progress', progress)
return 'shown'
