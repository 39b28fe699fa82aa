--- Consistent hashing over a map from node to weight, by rendezvous: the node with the largest hash of node and key
-- wins, so the removal of a node moves only its own keys.
--
-- The hash is MD5: CRC-32 is affine, which would order the nodes alike for every key.

local _M = {}
local mt = { __index = _M }

local function score(node, weight, key)
  -- 48 bits fit a double exactly; 1 is added so that the logarithm exists.
  local hash = tonumber(ngx.md5(node .. "\0" .. key):sub(1, 12), 16)
  return -weight / math.log((hash + 1) / (2 ^ 48 + 1))
end

function _M.reinit(self, nodes)
  self.nodes = nodes
end

function _M.new(_, nodes)
  return setmetatable({ nodes = nodes }, mt)
end

--- Returns the node for a key, or nil if there is none.
function _M.find(self, key)
  local best, best_score
  for node, weight in pairs(self.nodes) do
    local this = score(node, weight, tostring(key))
    if not best or this > best_score then
      best, best_score = node, this
    end
  end
  return best
end

return _M
