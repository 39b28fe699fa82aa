# Reads the cases, and prints a Lua program that runs the health check in `$script` over each, as Argo CD would, and stops at
# the first wrong answer.

def lua:
  if type == "object" then "{" + (to_entries | map("[\(.key | tojson)] = \(.value | lua)") | join(", ")) + "}"
  elif type == "array" then "{" + (map(lua) | join(", ")) + "}"
  elif . == null then "nil"
  else tojson end;

"-- Argo CD opens nothing but the base library, tables and a part of `os`.
getmetatable('').__index = nil
string, io, math, debug, coroutine = nil, nil, nil, nil, nil
local function check(obj)
\($script)
end
local function try(case, expected, message, obj)
  local answer = check(obj)
  if answer.status ~= expected or answer.message ~= message then
    error(case .. ': ' .. tostring(answer.status) .. ' (' .. tostring(answer.message) .. ') instead of ' .. expected .. ' (' .. message .. ')')
  end
end",
(.[] | "try(\(.case | tojson), \(.health | tojson), \(.message | tojson), \(.resource | lua))"),
"print('the health check answers \(length) cases as it should')"
