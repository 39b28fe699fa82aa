--- Reads a cookie of the request and adds a Set-Cookie header to the response (RFC 6265).

local _M = {}
local mt = { __index = _M }

function _M.new()
  return setmetatable({}, mt)
end

--- Returns the value of a request cookie, or nil and a reason.
function _M.get(_, name)
  local value = ngx.var["cookie_" .. name]
  if not value or value == "" then
    return nil, "no such cookie"
  end
  return value
end

local ATTRIBUTES = {
  { field = "expires", name = "Expires" },
  { field = "max_age", name = "Max-Age" },
  { field = "domain", name = "Domain" },
  { field = "path", name = "Path" },
  { field = "secure", name = "Secure" },
  { field = "httponly", name = "HttpOnly" },
  { field = "samesite", name = "SameSite" },
}

function _M.set(_, cookie)
  if not cookie.key or not cookie.value then
    return nil, "a cookie needs a key and a value"
  end
  local parts = { cookie.key .. "=" .. cookie.value }
  for _, attribute in ipairs(ATTRIBUTES) do
    local value = cookie[attribute.field]
    if value == true then
      parts[#parts + 1] = attribute.name
    elseif value then
      parts[#parts + 1] = attribute.name .. "=" .. value
    end
  end

  -- A response may have several cookies, each in a header of its own.
  local headers = ngx.header["Set-Cookie"] or {}
  if type(headers) == "string" then
    headers = { headers }
  end
  headers[#headers + 1] = table.concat(parts, "; ")
  ngx.header["Set-Cookie"] = headers
  return true
end

return _M
