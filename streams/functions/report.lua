-- report: show one step of a running attempt, at most once.
-- KEYS  log     list    the job's history
--       leases  hash    the fence, the running number and how far the attempt is
--       events  stream  the live feed
-- ARGV  key     the job's key
--       nonce   the fence: refused unless it is the current one
--       number  the attempt's running number of this report: a repeated one was shown before
--       most    events that the job may have before this one
--       event   attempt, status, worker, step and more, as they are kept
-- Returns  shown | again | lost | cancelled | full
local job = fence(key, nonce)
if not job then
  return 'lost'
end
if tonumber(number) <= tonumber(job.reported) then
  return 'again'
end
if #job.marks > 0 and mark(job.marks, 'cancel') then -- it is asked to stop, and to say nothing more
  return 'cancelled'
end
if #job.seq >= #most and tonumber(job.seq) >= tonumber(most) then -- a comparison of numbers costs as much as the fence
  return 'full'
end
renew(key, nonce, job, number, emit(key, job, event))
return 'shown'
