--- Stands in for a library that Debian does not package and that no Ingress of this project needs.
--
-- The controller loads these libraries at start. Loading works; using one fails with a message that names it,
-- so a feature that needs it is refused and never half done.

return function(library, feature)
  local function refuse()
    local reason = library .. " is not part of this image: " .. feature .. " is not available"
    -- Some callers ignore the returned reason, so it is logged as well.
    ngx.log(ngx.ERR, reason)
    return nil, reason
  end
  return { new = refuse }
end
