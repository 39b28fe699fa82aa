return require("resty.unavailable")("lua-resty-global-throttle", "the global rate limit")
