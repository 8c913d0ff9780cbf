-- release: hand a running job back unfinished, at no cost and to the front of the line.
-- KEYS  record  hash    the fence and the state of the job
--       log     list    the job's history
--       leases  hash    this attempt's lease, given back
--       front   zset    where the job goes
--       events  stream  the live feed
--       bell    stream  rung: there is work
-- ARGV  key    the job's key
--       nonce  the fence: refused unless it is the current one
--       owner  the consumer that hands it back
-- Returns  ok | again | lost
local job, refusal = fence(record, nonce, 'waiting', 'attempt')
if not job then
  if match(call('HGET', leases, nonce) or '', '^%S+') == key then -- without its running attempt it only takes up room
    drop(nonce)
  end
  return refusal
end
back_in_line(record, key, job, job.extra, owner, 'released')
drop(nonce)
return 'ok'
