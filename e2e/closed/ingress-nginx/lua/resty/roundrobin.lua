--- Weighted round robin over a map from node to weight.
--
-- Every node appears in the ring as often as its weight says, spread out by always taking the node with the
-- largest credit. The start is random, so that several workers do not all begin with the same node.

local _M = {}
local mt = { __index = _M }

local function ring_of(nodes)
  local names, total = {}, 0
  for name, weight in pairs(nodes) do
    names[#names + 1] = name
    total = total + weight
  end
  -- The order of pairs() differs between workers; the ring's must not.
  table.sort(names)

  local credit, ring = {}, {}
  for slot = 1, total do
    local best
    for _, name in ipairs(names) do
      credit[name] = (credit[name] or 0) + nodes[name]
      if not best or credit[name] > credit[best] then
        best = name
      end
    end
    credit[best] = credit[best] - total
    ring[slot] = best
  end
  return ring
end

function _M.reinit(self, nodes)
  self.nodes = nodes
  self.ring = ring_of(nodes)
  self.last = math.random(math.max(#self.ring, 1))
end

function _M.new(_, nodes)
  local self = setmetatable({}, mt)
  self:reinit(nodes)
  return self
end

--- Returns the next node, or nil if there is none.
function _M.find(self)
  local size = #self.ring
  if size == 0 then
    return nil
  end
  self.last = self.last % size + 1
  return self.ring[self.last]
end

return _M
