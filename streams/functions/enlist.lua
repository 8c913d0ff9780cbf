-- enlist: put some leases on the lists of their owners, and these among the watched, where keys were removed by hand; bounded.
-- Script  tending
-- Uses  lease
-- KEYS  leases
-- ARGV  cursor  where the scan of the leases goes on, 0: at its beginning
--       most    how many leases to look at, about
-- Returns  where to go on, 0: that was the last of them
local page = call('HSCAN', keys.leases, cursor, 'COUNT', most)
for i = 1, #page[2], 2 do
  local _, job = lease.read(page[2][i + 1])
  if job then
    add(granted, job.owner, page[2][i])
  end
end
flush_holders()
return page[1]
