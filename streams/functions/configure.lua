-- configure: write the policy of a platform, unless another one was written since its writer looked.
-- Script  acting
-- KEYS  policy
-- ARGV  before    the version that the writer has read; 0: there was none
--       rules     the policy, JSON
--       declared  a digest of what a configuration file says of it; empty: that stays as it is
-- Returns  <its version> | changed
local version = tonumber(call('HGET', keys.policy, 'version') or '0')
local same = call('HGET', keys.policy, 'rules') == rules
if version == tonumber(before) + 1 and same then -- again, after a lost answer
  return tostring(version)
end
if version ~= tonumber(before) then
  return 'changed'
end
call('HSET', keys.policy, 'version', version + 1, 'rules', rules)
if declared ~= '' then
  call('HSET', keys.policy, 'declared', declared)
end
return tostring(version + 1)
