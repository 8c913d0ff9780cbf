-- release: hand a running job back unfinished, at no cost and to the front of the line.
-- KEYS  record  hash    the state of the job
--       log     list    the job's history
--       leases  hash    the fence; this attempt's lease is given back
--       front   zset    where the job goes
--       events  stream  the live feed
--       bell    stream  rung: there is work
-- ARGV  key    the job's key
--       nonce  the fence: refused unless it is the current one
-- Returns  ok | again | lost
local job = fence(key, nonce)
if not job then
  return refusal(record, nonce, 'waiting')
end
if not stands(record, nonce) then
  return 'lost'
end
back_in_line(record, key, job, 'released')
drop(nonce)
return 'ok'
