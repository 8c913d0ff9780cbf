"""A platform with 10,000 running jobs of 300 consumers, written by one script."""

RUNNING, OWNERS = 10_000, 300

FILL = """
local prefix, running, owners = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
for i = 1, running do
  local owner = 'research.host.' .. i % owners .. '.0123456789abcdef'
  local nonce, key, id = string.format('%014x-%x', i % owners, i), 'job-' .. i, i .. '-0'
  local id = redis.call('XADD', prefix .. 'jobs:normal', '*', 'id', key, 'args', '{}')
  redis.call('HSET', prefix .. 'leases', nonce,
    '0 2 ' .. key .. ' 2-17630000009990000 1 ' .. owner .. ' normal ' .. id .. ' 10000')
  redis.call('SADD', prefix .. 'holds:' .. owner, nonce)
  redis.call('HSET', prefix .. 'beats', owner, 1)
  redis.call('HSET', prefix .. 'job:' .. key, 'state', 'running', 'kind', 'drill', 'band', 'normal', 'entry', id,
    'fingerprint', 'f', 'attempt', 1, 'nonce', nonce, 'owner', owner, 'started', '2-17630000009990000')
end
redis.call('XGROUP', 'CREATE', prefix .. 'jobs:normal', 'consumers', '0')
for i = 0, owners - 1 do
  redis.call('XREADGROUP', 'GROUP', 'consumers', 'research.host.' .. i .. '.0123456789abcdef', 'COUNT',
    math.ceil(running / owners), 'STREAMS', prefix .. 'jobs:normal', '>')
end"""
