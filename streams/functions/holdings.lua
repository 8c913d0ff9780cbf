-- holdings: see some of the jobs that one owner runs, chosen at random, so that several observers see different ones.
-- Script  tending
-- Uses  lease
-- ARGV  owner  the consumer
--       most   how many to see
-- Returns  nonce and lease in turn
return lease.some_of(owner, most)
