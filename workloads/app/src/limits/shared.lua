-- Takes a token out of a bucket: the generic cell rate algorithm in microseconds, by the clock of the server.
-- KEYS[1] holds when the bucket will be full. ARGV: the time that one token takes, and the time of a whole bucket.
-- Returns 0, or how long until there is a token.
local interval, capacity = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- A time that no bucket can have is as good as none: another rate, the time of a server with another clock, or garbage.
local full_at = tonumber(redis.call('GET', KEYS[1]))
if not (full_at and full_at > now and full_at <= now + capacity) then
  full_at = now
end
full_at = full_at + interval
local wait = full_at - now - capacity
if wait > 0 then
  return wait
end
redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', math.ceil((full_at - now) / 1000))
return 0
