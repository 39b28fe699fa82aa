-- Takes a token out of a bucket: the generic cell rate algorithm in microseconds, by the clock of the server.
-- KEYS[1] holds the time at which the bucket will be full. ARGV: the refill times of one token and of a whole
-- bucket. Returns two times: 0 and the time until the bucket is full again, or the time until the next token and 0.
local interval, capacity = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- A time that no bucket can have counts as none: it comes from another rate or another server's clock, or it is
-- garbage.
local full_at = tonumber(redis.call('GET', KEYS[1]))
if not (full_at and full_at > now and full_at <= now + capacity) then
  full_at = now
end
full_at = full_at + interval
local wait = full_at - now - capacity
if wait > 0 then
  return {wait, 0}
end
redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', math.ceil((full_at - now) / 1000))
return {0, full_at - now}
