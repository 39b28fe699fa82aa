--- A lock between workers, kept in a shared dictionary; it expires by itself if its holder dies.
--
-- The controller asks only for locks that give up at once (`timeout = 0`), because a balancer phase cannot sleep.

local _M = {}
local mt = { __index = _M }

function _M.new(_, dictionary, options)
  local shared = ngx.shared[dictionary]
  if not shared then
    return nil, "dictionary not found: " .. tostring(dictionary)
  end
  if not options or options.timeout ~= 0 then
    return nil, "only timeout = 0 is supported"
  end
  return setmetatable({ shared = shared, expiry = options.exptime or 30 }, mt)
end

--- Returns the seconds waited (always 0), or nil and "timeout" if another worker holds the lock.
function _M.lock(self, key)
  if self.key then
    return nil, "locked"
  end
  local added, err = self.shared:add(key, true, self.expiry)
  if not added then
    return nil, err == "exists" and "timeout" or err
  end
  self.key = key
  return 0
end

function _M.unlock(self)
  if not self.key then
    return nil, "unlocked"
  end
  self.shared:delete(self.key)
  self.key = nil
  return 1
end

return _M
