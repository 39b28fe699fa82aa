return require("resty.unavailable")("lua-resty-ipmatcher", "ignoring addresses in a global rate limit")
