-- arrive: bring the end of a child to its parent, once; a parent that awaits no other child goes on.
-- Script  acting
-- Uses  flows
-- KEYS  record children
-- ARGV  key    the parent's key
--       child  the id of the child
--       event  of its end, as a history keeps it without an id; `reopened`: the child runs again
-- Returns  ok | again | foreign: it is not a child of this job | missing
return flows.arrive(record, key, child, event)
