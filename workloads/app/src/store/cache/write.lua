-- Writes an entry of a code, unless its link was changed a moment ago or is taken down: what arrives then is older.
-- KEYS: the destination, the negative entry or mark, the hold, and the template. ARGV[1] is 1 if the link was just created
-- or found, which ends its negative entry. The others, if there is anything to write: the number of the key, the value, its
-- time to live and, if there is one, the time at which it ends at the latest, both in milliseconds.
-- MGET, because it takes whatever else stands under a key for nothing.
local mark = redis.call('MGET', KEYS[2])[1]
local kind = mark and string.sub(mark, 1, 3)
local down = kind == '410' or kind == '451'
local left = tonumber(ARGV[4])
if ARGV[5] then
  local time = redis.call('TIME')
  left = math.min(left, ARGV[5] - time[1] * 1000 - math.floor(time[2] / 1000))
end
local result = 0
if left and left > 0 and not down and redis.call('EXISTS', KEYS[3]) == 0 then
  -- A full server refuses this, and the negative entry has to go all the same.
  result = redis.pcall('SET', KEYS[tonumber(ARGV[2])], ARGV[3], 'PX', string.format('%.0f', left))
end
if ARGV[1] == '1' and not down then
  redis.call('DEL', KEYS[2])
end
return result
