local resolver = require("resty.unavailable")("lua-resty-dns", "resolving an ExternalName Service")

-- Record types of RFC 1035 and RFC 3596, which the controller reads at load time.
resolver.TYPE_A = 1
resolver.TYPE_AAAA = 28

return resolver
